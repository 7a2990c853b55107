//! Tests of Anthropic's messages.

use serde_json::{Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::AnthropicFormat;
use crate::model::{ModelRequest, ToolChoice};
use crate::wire::http_provider::tests::{decode_every_cut, outline, sample_request};
use crate::wire::provider_settings::{ProviderSettings, WireKind};
use crate::wire::wire_format::{EncodedRequest, WireFormat};

fn encoded(request: &ModelRequest) -> EncodedRequest {
    let mut settings =
        ProviderSettings::new("anthropic", WireKind::AnthropicMessages, "https://host");
    settings.key = Some("k".to_owned());
    AnthropicFormat.encode(request, &settings)
}

fn body(request: &ModelRequest) -> Value {
    Value::Object(encoded(request).body)
}

fn stream(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"))
    };
    events.iter().map(line).collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 12,
        "cache_creation_input_tokens": 300, "cache_read_input_tokens": 700, "output_tokens": 1}}})
}

fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
               "usage": {"output_tokens": 60, "input_tokens": null}}),
        json!({"type": "message_stop"}),
    ]
}

fn block(index: u64, block: &Value, deltas: &[Value]) -> Vec<Value> {
    let opened = json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let closed = json!({"type": "content_block_stop", "index": index});
    std::iter::once(opened).chain(deltas.iter().map(delta)).chain([closed]).collect()
}

fn text(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.to_owned(), metadata: None }
}

#[test]
fn every_kind_of_block_is_decoded() {
    let thinking = [
        json!({"type": "thinking_delta", "thinking": "hm"}),
        json!({"type": "signature_delta", "signature": "SI"}),
        json!({"type": "signature_delta", "signature": "G"}),
    ];
    let citation = json!({"type": "citations_delta", "citation": {}});
    let arguments = [
        json!({"type": "input_json_delta", "partial_json": ""}),
        json!({"type": "input_json_delta", "partial_json": "{\"a\":"}),
        json!({"type": "input_json_delta", "partial_json": "1}"}),
    ];
    let events: Vec<Value> = [
        vec![start(), json!({"type": "ping"})],
        block(0, &json!({"type": "redacted_thinking", "data": "R"}), &[]),
        block(1, &json!({"type": "thinking", "thinking": "", "signature": ""}), &thinking),
        block(
            2,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "Hi ü"}), citation],
        ),
        block(
            3,
            &json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}),
            &arguments,
        ),
        block(4, &json!({"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}}), &[]),
        block(
            5,
            &json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            &[],
        ),
        block(
            6,
            &json!({"type": "tool_use", "id": "toolu_3", "name": "list", "input": {"a": 2}}),
            &[],
        ),
        end("tool_use"),
    ]
    .concat();
    let (events, failure) = decode_every_cut(&AnthropicFormat, &stream(&events));
    assert_eq!(failure, None);
    let expected = [
        "reasoning {\"anthropic\":{\"redactedData\":\"R\"}}",
        "reasoning end {\"anthropic\":{\"redactedData\":\"R\"}}",
        "reasoning",
        "reasoning: hm",
        "reasoning end {\"anthropic\":{\"signature\":\"SIG\"}}",
        "text",
        "text: Hi ü",
        "text end",
        "tool toolu_1 read",
        "tool toolu_1: {\"a\":",
        "tool toolu_1: 1}",
        "call toolu_1 read {\"a\":1}",
        "tool toolu_2 list",
        "call toolu_2 list {}",
        "tool toolu_3 list",
        "call toolu_3 list {\"a\":2}",
        "finish tool-calls 1012/60/0/700/300",
    ];
    assert_eq!(outline(&events), expected);
}

#[test]
fn every_reason_is_known_and_errors_end_the_answer() {
    let reasons = [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("odd", "unknown"),
    ];
    for (reason, expected) in reasons {
        let events = [vec![start()], end(reason)].concat();
        let (events, _) = decode_every_cut(&AnthropicFormat, &stream(&events));
        assert_eq!(outline(&events), [format!("finish {expected} 1012/60/0/700/300")]);
    }
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (events, failure) = decode_every_cut(&AnthropicFormat, &stream(&[error]));
    assert!(events.is_empty());
    let failure = failure.unwrap();
    assert_eq!(
        (failure.message.as_str(), &failure.codes[0][..]),
        ("Overloaded", "overloaded_error")
    );
    assert_eq!(failure.kind(true), crate::model::ModelErrorKind::Retryable);
}

#[test]
fn a_conversation_is_encoded() {
    let image =
        |url: &str| ModelFile { mime: "image/png".to_owned(), filename: None, url: url.to_owned() };
    let pdf = ModelFile {
        mime: "application/pdf".to_owned(),
        ..image("data:application/pdf;base64,BB==")
    };
    let reasoning = |text: &str, metadata: Value| AssistantContent::Reasoning {
        text: text.to_owned(),
        metadata: Some(metadata),
    };
    let call = |call: &str, input: Value| AssistantContent::ToolCall {
        call: call.to_owned(),
        tool: "read".to_owned(),
        input,
        metadata: None,
    };
    let result = |call: &str, output: ToolOutput| ToolResult {
        call: call.to_owned(),
        tool: "read".to_owned(),
        output,
    };
    let mut request = sample_request("claude-sonnet-4-5");
    request.system = vec!["one".to_owned(), "two".to_owned(), "three".to_owned()];
    request.messages = vec![
        ModelMessage::User(vec![
            UserContent::Text { text: "look".to_owned() },
            UserContent::File(image("https://host/a.png")),
            UserContent::File(pdf),
        ]),
        ModelMessage::Assistant(vec![
            reasoning("", json!({"anthropic": {"redactedData": "R"}})),
            reasoning("hm", json!({"anthropic": {"signature": "S"}})),
            reasoning("unsigned", json!({})),
            text("I read."),
            call("a.1", json!({"filePath": "a"})),
            call("a.2", json!("broken")),
        ]),
        ModelMessage::Tool(vec![
            result(
                "a.1",
                ToolOutput::Text {
                    text: "A".to_owned(),
                    files: vec![image("data:image/png;base64,AA==")],
                },
            ),
            result("a.2", ToolOutput::Error { text: "no".to_owned() }),
        ]),
        ModelMessage::User(vec![UserContent::Text { text: "on".to_owned() }]),
    ];
    let cached = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1000,
        "system": [
            {"type": "text", "text": "one", "cache_control": cached},
            {"type": "text", "text": "two", "cache_control": cached},
            {"type": "text", "text": "three"},
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "BB=="}},
            ]},
            {"role": "assistant", "content": [
                {"type": "redacted_thinking", "data": "R"},
                {"type": "thinking", "thinking": "hm", "signature": "S"},
                {"type": "text", "text": "I read."},
                {"type": "tool_use", "id": "a_1", "name": "read", "input": {"filePath": "a"}},
                {"type": "tool_use", "id": "a_2", "name": "read", "input": {"arguments": "broken"},
                 "cache_control": cached},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a_1", "content": [
                    {"type": "text", "text": "A"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                ]},
                {"type": "tool_result", "tool_use_id": "a_2", "content": "no", "is_error": true},
                {"type": "text", "text": "on", "cache_control": cached},
            ]},
        ],
        "tools": [{"name": "read", "description": "Reads a file.",
                   "input_schema": {"type": "object", "properties": {"filePath": {"type": "string"}}}}],
        "tool_choice": {"type": "auto"}, "stream": true,
    });
    assert_eq!(body(&request), expected);
    let sent = encoded(&request);
    assert_eq!(sent.key_header, Some(("x-api-key".to_owned(), "k".to_owned())));
    assert_eq!(sent.headers, [("anthropic-version".to_owned(), "2023-06-01".to_owned())]);
}

#[test]
fn thinking_changes_limits_choice_and_temperature() {
    let mut request = sample_request("claude-sonnet-4-5");
    request.tool_choice = ToolChoice::Required;
    request.temperature = Some(0.5);
    assert_eq!(body(&request)["tool_choice"]["type"], "any");
    assert_eq!(body(&request)["temperature"], 0.5);
    let with = |options: Value, model: &str| {
        let options = options.as_object().unwrap().clone();
        encoded(&ModelRequest {
            options,
            model: model.to_owned(),
            max_output_tokens: Some(32_000),
            ..request.clone()
        })
    };
    let budget = json!({"thinking": {"type": "enabled", "budgetTokens": 16_000}, "topK": 3});
    let sent = with(budget.clone(), "claude-sonnet-4-5");
    let sent_body = Value::Object(sent.body);
    assert_eq!(sent_body["thinking"], json!({"type": "enabled", "budget_tokens": 16_000}));
    assert_eq!(
        (&sent_body["max_tokens"], &sent_body["tool_choice"]["type"]),
        (&json!(48_000), &json!("auto"))
    );
    assert!(
        sent_body["temperature"].is_null()
            && sent_body["topK"].is_null()
            && sent_body["top_k"].is_null()
    );
    assert!(sent.headers.iter().any(|(name, _)| name == "anthropic-beta"));
    assert_eq!(with(budget, "claude-opus-4-1").body["max_tokens"], 32_000);
    let adaptive =
        json!({"thinking": {"type": "adaptive", "display": "summarized"}, "effort": "high"});
    let sent = with(adaptive, "claude-opus-4-7");
    assert_eq!(sent.body["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(sent.body["output_config"], json!({"effort": "high"}));
    assert_eq!(sent.headers.len(), 1);
}

#[test]
fn a_last_answer_loses_its_white_space_and_empty_messages_vanish() {
    let mut request = sample_request("claude-haiku-4-5");
    request.messages.push(ModelMessage::Assistant(vec![text("")]));
    request.messages.push(ModelMessage::User(vec![UserContent::Text { text: "more".to_owned() }]));
    request.messages.push(ModelMessage::Assistant(vec![text("so far \n")]));
    let messages = body(&request)["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(messages[1]["content"][0]["text"], "so far");
}

#[test]
fn a_stream_that_begins_again_reuses_no_name_and_makes_no_half_call() {
    let open = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let events: Vec<Value> = [
        vec![
            start(),
            open(0, json!({"type": "text", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "one"})),
            open(1, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
            delta(1, json!({"type": "input_json_delta", "partial_json": "{\"a"})),
            start(),
        ],
        block(
            0,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "two"})],
        ),
        end("end_turn"),
    ]
    .concat();
    let (events, _) = decode_every_cut(&AnthropicFormat, &stream(&events));
    let expected = [
        "text",
        "text: one",
        "tool toolu_1 read",
        "tool toolu_1: {\"a",
        "text end",
        "text",
        "text: two",
        "text end",
        "finish stop 1012/60/0/700/300",
    ];
    assert_eq!(outline(&events), expected);
    let ids = events.iter().filter_map(|event| {
        let crate::model::ModelEvent::TextStarted { id, .. } = event else { return None };
        Some(id.as_str())
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["text-1", "text-3"]);
}

#[test]
fn an_answer_without_a_stream_is_read_as_a_whole() {
    let message = json!({"type": "message", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}},
    ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}});
    let (events, failure) = decode_every_cut(&AnthropicFormat, &format!("data: {message}\n\n"));
    assert_eq!(failure, None);
    let expected = [
        "reasoning",
        "reasoning: hm",
        "reasoning end {\"anthropic\":{\"signature\":\"S\"}}",
        "text",
        "text: Hi",
        "text end",
        "tool t read",
        "call t read {\"a\":1}",
        "finish tool-calls 3/2/0/0/0",
    ];
    assert_eq!(outline(&events), expected);
}
