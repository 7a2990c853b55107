//! Tests of chat completions.

use serde_json::{Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::ChatFormat;
use crate::model::{ModelEvent, ModelRequest, ToolChoice};
use crate::wire::http_provider::tests::{decode_every_cut, outline, sample_request};
use crate::wire::provider_settings::{ProviderSettings, WireKind};
use crate::wire::wire_format::WireFormat;

fn body(provider: &str, request: &ModelRequest) -> Value {
    let settings = ProviderSettings::new(provider, WireKind::ChatCompletions, "https://host/v1");
    Value::Object(ChatFormat.encode(request, &settings).body)
}

fn chunks(chunks: &[Value]) -> String {
    let lines = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    lines.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn decoded(parts: &[Value]) -> Vec<String> {
    let (events, failure) = decode_every_cut(&ChatFormat, &chunks(parts));
    assert_eq!(failure, None);
    outline(&events)
}

fn call(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    delta(
        &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
    )
}

/// A conversation with everything that can be in one.
fn conversation() -> Vec<ModelMessage> {
    let text = |text: &str| text.to_owned();
    let image = ModelFile {
        mime: text("image/png"),
        filename: None,
        url: text("data:image/png;base64,AA=="),
    };
    let pdf = ModelFile {
        mime: text("application/pdf"),
        filename: Some(text("a.pdf")),
        url: text("data:application/pdf;base64,BB=="),
    };
    let zip = ModelFile {
        mime: text("application/zip"),
        filename: Some(text("a.zip")),
        url: text("file:///a.zip"),
    };
    vec![
        ModelMessage::User(vec![
            UserContent::Text { text: text("look") },
            UserContent::File(image.clone()),
            UserContent::File(pdf),
            UserContent::File(zip),
        ]),
        ModelMessage::Assistant(vec![
            AssistantContent::Reasoning { text: text("hm"), metadata: None },
            AssistantContent::Text { text: text("I read."), metadata: None },
            AssistantContent::ToolCall {
                call: text("toolu:1"),
                tool: text("read"),
                input: json!({"filePath": "a"}),
                metadata: Some(json!({"google": {"thoughtSignature": "S"}})),
            },
            AssistantContent::ToolCall {
                call: text("c2"),
                tool: text("read"),
                input: json!({}),
                metadata: None,
            },
        ]),
        ModelMessage::Tool(vec![
            ToolResult {
                call: text("toolu:1"),
                tool: text("read"),
                output: ToolOutput::Text { text: text("content"), files: vec![image] },
            },
            ToolResult {
                call: text("c2"),
                tool: text("read"),
                output: ToolOutput::Error { text: text("gone") },
            },
        ]),
        ModelMessage::User(vec![UserContent::Text { text: text("on") }]),
    ]
}

#[test]
fn a_conversation_is_encoded() {
    let mut request = sample_request("some-model");
    request.messages = conversation();
    request.temperature = Some(0.5);
    let options = json!({"reasoningEffort": "high", "seed": 7});
    request.options = options.as_object().unwrap().clone();
    let function = json!({"name": "read", "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"filePath": {"type": "string"}}}});
    let expected = json!({
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BB=="}},
                {"type": "text", "text": "[File a.zip of type application/zip cannot be sent to this model]"},
            ]},
            {"role": "assistant", "content": "I read.", "reasoning_content": "hm", "tool_calls": [
                {"id": "toolu:1", "type": "function",
                 "function": {"name": "read", "arguments": "{\"filePath\":\"a\"}"},
                 "extra_content": {"google": {"thought_signature": "S"}}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "toolu:1", "content": "content"},
            {"role": "tool", "tool_call_id": "c2", "content": "gone"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
            {"role": "user", "content": "on"},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "auto", "max_tokens": 1000, "temperature": 0.5,
        "reasoning_effort": "high", "seed": 7,
        "stream": true, "stream_options": {"include_usage": true},
    });
    assert_eq!(body("test", &request), expected);
    request.tool_choice = ToolChoice::Required;
    assert_eq!(body("test", &request)["tool_choice"], "required");
    request.tools.clear();
    let bare = body("test", &request);
    assert!(bare["tools"].is_null() && bare["tool_choice"].is_null());
}

#[test]
fn providers_get_what_they_require() {
    let mut request = sample_request("mistral-large");
    request.messages = conversation();
    let mistral = body("mistral", &request);
    let messages = mistral["messages"].as_array().unwrap();
    let roles: Vec<&str> =
        messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    let expected = ["system", "user", "assistant", "tool", "tool", "assistant", "user", "user"];
    assert_eq!(roles, expected);
    let id = messages[2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && messages[3]["tool_call_id"] == id);
    assert!(messages[2]["reasoning_content"].is_null());

    request.model = "anthropic/claude-sonnet-4".to_owned();
    assert_eq!(body("openrouter", &request)["messages"][2]["tool_calls"][0]["id"], "toolu_1");
    assert_eq!(body("openrouter", &request)["messages"][2]["reasoning"], "hm");

    request.model = "deepseek-reasoner".to_owned();
    request.messages = vec![ModelMessage::Assistant(vec![AssistantContent::Text {
        text: "a".to_owned(),
        metadata: None,
    }])];
    assert_eq!(body("deepseek", &request)["messages"][1]["reasoning_content"], "");
    assert!(body("test", &sample_request("x"))["messages"][1]["reasoning_content"].is_null());

    let mut settings =
        ProviderSettings::new("local", WireKind::ChatCompletions, "http://localhost");
    settings.reasoning_fields.insert("deepseek-reasoner".to_owned(), "reasoning_text".to_owned());
    let encoded = Value::Object(ChatFormat.encode(&request, &settings).body);
    assert_eq!(encoded["messages"][1]["reasoning_text"], "");

    let mut kimi = sample_request("kimi-k2");
    kimi.tools[0].parameters =
        json!({"properties": {"a": {"$ref": "#/$defs/a", "description": "d"}}});
    let parameters = &body("moonshotai", &kimi)["tools"][0]["function"]["parameters"];
    assert_eq!(parameters, &json!({"properties": {"a": {"$ref": "#/$defs/a"}}}));
    assert_eq!(body("openai", &sample_request("gpt-5"))["max_completion_tokens"], 1000);
    assert_eq!(body("local", &sample_request("gpt-oss"))["max_tokens"], 1000);
}

#[test]
fn text_reasoning_and_usage_are_decoded() {
    let usage = json!({"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 5}, "cost": 0.25});
    let parts = [
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "Let"})),
        delta(&json!({"reasoning_content": " me", "content": null})),
        delta(&json!({"content": "Hi 😀"})),
        delta(&json!({"content": " there"})),
        finish("stop"),
        json!({"choices": [], "usage": usage}),
    ];
    let expected = [
        "reasoning",
        "reasoning: Let",
        "reasoning:  me",
        "reasoning end",
        "text",
        "text: Hi 😀",
        "text:  there",
        "text end",
        "finish stop 90/12/5/64/3",
    ];
    assert_eq!(decoded(&parts), expected);
    let (events, _) = decode_every_cut(&ChatFormat, &chunks(&parts));
    let Some(ModelEvent::Finished { usage: Some(usage), .. }) = events.last() else { panic!() };
    assert_eq!(usage.cost, Some(0.25));
}

#[test]
fn tool_calls_are_joined_by_index_and_made_when_they_are_complete() {
    let parts = [
        delta(&json!({"content": "I read."})),
        call(0, Some("call_1"), Some("read"), ""),
        call(0, None, None, "{\"a\""),
        call(0, Some("call_1"), None, ":1}"),
        call(1, Some("call_2"), Some("list"), ""),
        finish("tool_calls"),
    ];
    let expected = [
        "text",
        "text: I read.",
        "tool call_1 read",
        "tool call_1: {\"a\"",
        "tool call_1: :1}",
        "call call_1 read {\"a\":1}",
        "tool call_2 list",
        "call call_2 list {}",
        "text end",
        "finish tool-calls",
    ];
    assert_eq!(decoded(&parts), expected);
}

#[test]
fn calls_of_unusual_servers_are_understood() {
    // The name comes late, and the arguments of two calls alternate.
    let parts = [
        call(0, Some("a"), None, "{\"x\":"),
        call(1, Some("b"), Some("two"), "{"),
        call(0, None, Some("one"), "1}"),
        call(1, None, None, "}"),
        finish("tool_calls"),
    ];
    let expected = [
        "tool b two",
        "tool b: {",
        "tool a one",
        "tool a: {\"x\":1}",
        "tool b: }",
        "call a one {\"x\":1}",
        "call b two {}",
        "finish tool-calls",
    ];
    assert_eq!(decoded(&parts), expected);
    // Every call has the index 0.
    let parts = [
        call(0, Some("a"), Some("one"), "{}"),
        call(0, Some("b"), Some("one"), "{}"),
        finish("stop"),
    ];
    let expected = [
        "tool a one",
        "tool a: {}",
        "call a one {}",
        "tool b one",
        "tool b: {}",
        "call b one {}",
        "finish tool-calls",
    ];
    assert_eq!(decoded(&parts), expected);
    // Google: no index, whole calls, a signature; others: arguments as an object, no id.
    let google = json!({"id": "g", "function": {"name": "one", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "S"}}});
    let parts = [delta(&json!({"tool_calls": [google]})), finish("stop")];
    let called = "call g one {} {\"google\":{\"thoughtSignature\":\"S\"}}";
    assert_eq!(decoded(&parts)[2], called);
    let bare = json!({"function": {"name": "one", "arguments": {"a": 1}}});
    let parts = [delta(&json!({"tool_calls": [bare, bare]})), finish("tool_calls")];
    let made = decoded(&parts);
    let calls: Vec<_> = made.iter().filter(|line| line.starts_with("call ")).collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|line| line.ends_with("one {\"a\":1}")) && calls[0] != calls[1]);
}

#[test]
fn reasoning_details_return_as_they_came() {
    let detail =
        |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0, "signature": null});
    let parts = [
        delta(&json!({"reasoning": "a", "reasoning_details": [detail("a")]})),
        delta(&json!({"reasoning": "b", "reasoning_details": [detail("b")]})),
        delta(
            &json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "S"}]}),
        ),
        delta(&json!({"content": "c"})),
        delta(
            &json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "E", "index": 1}]}),
        ),
        finish("stop"),
    ];
    let lines = decoded(&parts);
    let joined = json!({"openrouter": {"reasoning_details":
        [{"type": "reasoning.text", "text": "ab", "index": 0, "signature": "S"}]}});
    assert_eq!(lines[3], format!("reasoning end {joined}"));
    assert!(lines.iter().any(|line| line.contains("reasoning.encrypted")), "{lines:?}");
    let mut request = sample_request("m");
    let reasoning = AssistantContent::Reasoning { text: "ab".to_owned(), metadata: Some(joined) };
    request.messages = vec![ModelMessage::Assistant(vec![reasoning])];
    let encoded = body("openrouter", &request);
    assert_eq!(encoded["messages"][1]["reasoning_details"][0]["signature"], "S");
}

#[test]
fn content_may_be_a_list_of_parts() {
    let thinking = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]);
    let parts = [
        delta(&json!({"content": thinking})),
        delta(&json!({"content": [{"type": "text", "text": "a"}]})),
        delta(&json!({"refusal": "b"})),
        finish("length"),
    ];
    let expected = [
        "reasoning",
        "reasoning: hm",
        "reasoning end",
        "text",
        "text: a",
        "text: b",
        "text end",
        "finish length",
    ];
    assert_eq!(decoded(&parts), expected);
}

#[test]
fn every_reason_and_place_of_usage_is_known() {
    let text = delta(&json!({"content": "a"}));
    let last = |reason: &str, more: &Value| {
        let mut last = finish(reason);
        last.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        decoded(&[text.clone(), last]).pop().unwrap()
    };
    assert_eq!(last("content_filter", &json!({})), "finish content-filter");
    assert_eq!(last("function_call", &json!({})), "finish tool-calls");
    assert_eq!(last("bored", &json!({})), "finish unknown");
    let groq = json!({"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}});
    assert_eq!(last("stop", &groq), "finish stop 3/1/0/0/0");
    let deepseek = json!({"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}});
    assert_eq!(last("stop", &deepseek), "finish stop 9/1/0/4/0");
    let apart = json!({"usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 15,
        "completion_tokens_details": {"reasoning_tokens": 5}}});
    assert_eq!(last("stop", &apart), "finish stop 9/6/5/0/0");
    let zeros = json!({"usage": {"prompt_tokens": 0, "completion_tokens": 0}});
    assert_eq!(last("stop", &zeros), "finish stop");
    assert_eq!(decoded(&[text]).pop().unwrap(), "finish unknown");
}

#[test]
fn an_error_within_the_stream_ends_the_answer() {
    let error = json!({"error": {"message": "overloaded", "code": 502}});
    let stream = chunks(&[delta(&json!({"content": "a"})), error]);
    let (events, failure) = decode_every_cut(&ChatFormat, &stream);
    assert_eq!(outline(&events), ["text", "text: a"]);
    let failure = failure.unwrap();
    assert_eq!((failure.message.as_str(), failure.status), ("overloaded", Some(502)));
}
