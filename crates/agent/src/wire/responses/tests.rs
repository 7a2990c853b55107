//! Tests of OpenAI's responses.

use serde_json::{Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::{ResponsesFormat, is_reasoning_model};
use crate::model::ModelRequest;
use crate::wire::http_provider::tests::{decode_every_cut, outline, sample_request};
use crate::wire::provider_settings::{ProviderSettings, WireKind};
use crate::wire::wire_format::WireFormat;

fn body(request: &ModelRequest) -> Value {
    let settings = ProviderSettings::new("openai", WireKind::Responses, "https://host/v1");
    Value::Object(ResponsesFormat.encode(request, &settings).body)
}

fn stream(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"))
    };
    events.iter().map(line).collect()
}

fn decoded(events: &[Value]) -> Vec<String> {
    let (events, failure) = decode_every_cut(&ResponsesFormat, &stream(events));
    assert_eq!(failure, None);
    outline(&events)
}

fn event(kind: &str, place: u64, fields: &Value) -> Value {
    let mut event =
        json!({"type": format!("response.{kind}"), "output_index": place, "sequence_number": 1});
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

fn added(place: u64, item: &Value) -> Value {
    event("output_item.added", place, &json!({"item": item}))
}

fn done(place: u64, item: &Value) -> Value {
    event("output_item.done", place, &json!({"item": item}))
}

fn completed() -> Value {
    let usage = json!({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 120});
    json!({"type": "response.completed", "response": {"id": "r", "usage": usage}})
}

#[test]
fn reasoning_text_and_calls_are_decoded_in_their_order() {
    let summary = |part: u64, kind: &str, more: &Value| {
        let mut fields = json!({"item_id": "rs_1", "summary_index": part});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event(&format!("reasoning_{kind}"), 0, &fields)
    };
    let none = json!({});
    let events = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.in_progress", "response": {"id": "r"}}),
        added(
            0,
            &json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "early"}),
        ),
        summary(0, "summary_part.added", &none),
        summary(0, "summary_text.delta", &json!({"delta": "one"})),
        summary(0, "summary_text.done", &json!({"text": "one"})),
        summary(0, "summary_part.done", &none),
        summary(1, "summary_part.added", &none),
        summary(1, "summary_text.delta", &json!({"delta": "two", "obfuscation": "x"})),
        done(
            0,
            &json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "FINAL",
            "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]}),
        ),
        added(1, &json!({"type": "message", "id": "msg_1", "content": []})),
        event("content_part.added", 1, &json!({"item_id": "msg_1", "part": {}})),
        event("output_text.delta", 1, &json!({"item_id": "msg_1", "delta": "Hi"})),
        event("output_text.annotation.added", 1, &json!({"annotation": {}})),
        event("output_text.done", 1, &json!({"text": "Hi"})),
        done(
            1,
            &json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}),
        ),
        added(
            2,
            &json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": ""}),
        ),
        event("function_call_arguments.delta", 2, &json!({"item_id": "fc_1", "delta": "{\"a\":"})),
        event("function_call_arguments.delta", 2, &json!({"item_id": "fc_1", "delta": "1}"})),
        event("function_call_arguments.done", 2, &json!({"arguments": "{\"a\":1}"})),
        done(
            2,
            &json!({"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{\"a\":1}"}),
        ),
        added(3, &json!({"type": "web_search_call", "id": "ws"})),
        done(3, &json!({"type": "web_search_call", "id": "ws"})),
        added(
            4,
            &json!({"type": "function_call", "call_id": "call_2", "name": "list", "arguments": ""}),
        ),
        done(
            4,
            &json!({"type": "function_call", "call_id": "call_2", "name": "list", "arguments": ""}),
        ),
        completed(),
    ];
    let early = "{\"openai\":{\"itemId\":\"rs_1\",\"reasoningEncryptedContent\":null}}";
    let last = "{\"openai\":{\"itemId\":\"rs_1\",\"reasoningEncryptedContent\":\"FINAL\"}}";
    let message = "{\"openai\":{\"itemId\":\"msg_1\"}}";
    let expected = [
        format!("reasoning {early}"),
        "reasoning: one".into(),
        format!("reasoning end {early}"),
        format!("reasoning {early}"),
        "reasoning: two".into(),
        format!("reasoning end {last}"),
        format!("text {message}"),
        "text: Hi".into(),
        format!("text end {message}"),
        "tool call_1 read".into(),
        "tool call_1: {\"a\":".into(),
        "tool call_1: 1}".into(),
        "call call_1 read {\"a\":1}".into(),
        "tool call_2 list".into(),
        "call call_2 list {}".into(),
        "finish tool-calls 90/30/20/64/0".into(),
    ];
    assert_eq!(decoded(&events), expected);
}

#[test]
fn items_without_deltas_are_decoded_too() {
    let events = [
        done(
            0,
            &json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}),
        ),
        done(1, &json!({"type": "reasoning", "id": "rs_2", "summary": []})),
        added(2, &json!({"type": "reasoning", "id": "rs_3", "summary": []})),
        event("reasoning_text.delta", 2, &json!({"content_index": 0, "delta": "open"})),
        done(2, &json!({"type": "reasoning", "id": "rs_3", "summary": []})),
        added(3, &json!({"type": "message", "id": "m"})),
        event("refusal.delta", 3, &json!({"item_id": "m", "delta": "No."})),
        done(3, &json!({"type": "message", "id": "m"})),
        done(
            4,
            &json!({"type": "message", "id": "n", "content": [{"type": "output_text", "text": "Whole"}]}),
        ),
        completed(),
    ];
    let lines = decoded(&events);
    let expected = [
        "reasoning",
        "reasoning",
        "reasoning",
        "reasoning",
        "reasoning",
        "text",
        "text",
        "text",
        "text",
        "text",
        "text",
        "finish",
    ];
    let kinds: Vec<&str> =
        lines.iter().map(|line| line.split([' ', ':']).next().unwrap()).collect();
    assert_eq!(kinds, expected);
    assert!(
        lines[1].contains("\"E\"") && lines[3] == "reasoning: open" && lines[9] == "text: Whole"
    );
}

#[test]
fn incomplete_and_failed_answers_say_why() {
    let incomplete = |reason: &str| {
        let details = json!({"reason": reason});
        decoded(&[
            json!({"type": "response.incomplete", "response": {"incomplete_details": details}}),
        ])
    };
    assert_eq!(incomplete("max_output_tokens"), ["finish length"]);
    assert_eq!(incomplete("content_filter"), ["finish content-filter"]);
    let errors = [
        json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}}),
        json!({"type": "error", "code": "server_error", "message": "m", "param": null}),
        json!({"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "m"}}),
    ];
    for error in errors {
        let (_, failure) =
            decode_every_cut(&ResponsesFormat, &stream(std::slice::from_ref(&error)));
        let failure = failure.unwrap();
        assert_eq!(failure.message, "m", "{error}");
        assert_eq!(failure.kind(true), crate::model::ModelErrorKind::Retryable, "{error}");
    }
}

#[test]
fn a_conversation_is_encoded() {
    let reasoning = |text: &str, id: &str, encrypted: Value| AssistantContent::Reasoning {
        text: text.to_owned(),
        metadata: Some(json!({"openai": {"itemId": id, "reasoningEncryptedContent": encrypted}})),
    };
    let image = ModelFile {
        mime: "image/png".to_owned(),
        filename: None,
        url: "data:image/png;base64,AA==".to_owned(),
    };
    let result = |call: &str, output: ToolOutput| ToolResult {
        call: call.to_owned(),
        tool: "read".to_owned(),
        output,
    };
    let mut request = sample_request("gpt-5.2");
    request.temperature = Some(0.5);
    request.options = json!({"reasoningEffort": "low", "textVerbosity": "low", "service": 1})
        .as_object()
        .unwrap()
        .clone();
    request.messages.extend([
        ModelMessage::Assistant(vec![
            reasoning("one", "rs_1", Value::Null),
            reasoning("two", "rs_1", json!("E1")),
            reasoning("", "rs_2", json!("E2")),
            reasoning("lost", "rs_3", Value::Null),
            AssistantContent::Text { text: "I read.".to_owned(), metadata: None },
            AssistantContent::ToolCall {
                call: "call_1".to_owned(),
                tool: "read".to_owned(),
                input: json!({"a": 1}),
                metadata: None,
            },
        ]),
        ModelMessage::Tool(vec![
            result("call_1", ToolOutput::Text { text: "A".to_owned(), files: vec![image.clone()] }),
            result("call_2", ToolOutput::Error { text: "no".to_owned() }),
        ]),
        ModelMessage::User(vec![UserContent::File(image)]),
    ]);
    let encoded_image = json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="});
    let summary = |text: &str| json!({"type": "summary_text", "text": text});
    let expected = json!({
        "model": "gpt-5.2",
        "input": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "encrypted_content": "E1", "summary": [summary("one"), summary("two")]},
            {"type": "reasoning", "encrypted_content": "E2", "summary": []},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
            {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "A"}, encoded_image]},
            {"type": "function_call_output", "call_id": "call_2", "output": "no"},
            {"role": "user", "content": [encoded_image]},
        ],
        "store": false, "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto", "effort": "low"}, "text": {"verbosity": "low"},
        "prompt_cache_key": "ses_1", "max_output_tokens": 1000,
        "tools": [{"type": "function", "name": "read", "description": "Reads a file.", "strict": false,
                   "parameters": {"type": "object", "properties": {"filePath": {"type": "string"}}}}],
        "tool_choice": "auto", "service": 1, "stream": true,
    });
    assert_eq!(body(&request), expected);
    request.model = "gpt-4.1".to_owned();
    let plain = body(&request);
    assert_eq!(
        (&plain["temperature"], &plain["input"][0]["role"]),
        (&json!(0.5), &json!("system"))
    );
    assert!(plain["include"].is_null());
    assert!(is_reasoning_model("openai/o3-mini") && !is_reasoning_model("gpt-5-chat-latest"));
}

#[test]
fn an_answer_without_a_stream_is_read_as_a_whole() {
    let response = json!({"object": "response", "status": "completed", "error": null, "output": [
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
    ], "usage": {"input_tokens": 3, "output_tokens": 2}});
    let (events, failure) = decode_every_cut(&ResponsesFormat, &format!("data: {response}\n\n"));
    assert_eq!(failure, None);
    let message = "{\"openai\":{\"itemId\":\"m\"}}";
    let expected = [
        format!("text {message}"),
        "text: Hi".into(),
        format!("text end {message}"),
        "tool c read".into(),
        "call c read {}".into(),
        "finish tool-calls 3/2/0/0/0".into(),
    ];
    assert_eq!(outline(&events), expected);
}
