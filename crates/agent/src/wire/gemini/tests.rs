//! Tests of Gemini.

use serde_json::{Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::GeminiFormat;
use crate::wire::http_provider::tests::{decode_every_cut, outline, sample_request};
use crate::wire::provider_settings::{ProviderSettings, WireKind};
use crate::wire::wire_format::WireFormat;

fn stream(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

fn finish(reason: &str) -> Value {
    let usage = json!({"promptTokenCount": 90, "candidatesTokenCount": 4, "thoughtsTokenCount": 25,
        "cachedContentTokenCount": 30, "totalTokenCount": 119});
    json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": reason}], "usageMetadata": usage})
}

#[test]
fn thoughts_text_and_calls_are_decoded() {
    let chunks = [
        parts(&json!([{"text": "Plan", "thought": true}])),
        parts(&json!([{"text": " more", "thought": true, "thoughtSignature": "S0"}])),
        parts(&json!([{"text": "Hi ü"}])),
        parts(
            &json!([{"functionCall": {"name": "read", "args": {"a": 1}, "id": "c1"}, "thoughtSignature": "S1"},
                      {"functionCall": {"name": "list", "id": "c2"}}]),
        ),
        finish("STOP"),
    ];
    let (events, failure) = decode_every_cut(&GeminiFormat, &stream(&chunks));
    assert_eq!(failure, None);
    let expected = [
        "reasoning",
        "reasoning: Plan",
        "reasoning:  more",
        "reasoning end {\"google\":{\"thoughtSignature\":\"S0\"}}",
        "text",
        "text: Hi ü",
        "text end",
        "tool c1 read",
        "tool c1: {\"a\":1}",
        "call c1 read {\"a\":1} {\"google\":{\"thoughtSignature\":\"S1\"}}",
        "tool c2 list",
        "tool c2: {}",
        "call c2 list {}",
        "finish tool-calls 90/29/25/30/0",
    ];
    assert_eq!(outline(&events), expected);
}

#[test]
fn a_signature_at_the_end_belongs_to_the_text_before() {
    let chunks = [
        parts(&json!([{"text": "Hi"}])),
        parts(&json!([{"text": "", "thoughtSignature": "S"}])),
        finish("STOP"),
    ];
    let (events, _) = decode_every_cut(&GeminiFormat, &stream(&chunks));
    assert_eq!(outline(&events)[2], "text end {\"google\":{\"thoughtSignature\":\"S\"}}");
}

#[test]
fn calls_without_a_name_of_their_own_get_one() {
    let call = json!({"functionCall": {"name": "read", "args": {}}});
    let chunks = [parts(&json!([call, call])), finish("STOP")];
    let (events, _) = decode_every_cut(&GeminiFormat, &stream(&chunks));
    let lines = outline(&events);
    let calls: Vec<_> = lines.iter().filter(|line| line.starts_with("call call_")).collect();
    assert!(calls.len() == 2 && calls[0] != calls[1], "{lines:?}");
}

#[test]
fn every_reason_is_known_and_errors_end_the_answer() {
    let last = |chunk: Value| {
        let (events, failure) = decode_every_cut(&GeminiFormat, &stream(&[chunk]));
        (outline(&events).pop().unwrap_or_default(), failure)
    };
    let reasons = [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("SPII", "content-filter"),
        ("X", "unknown"),
    ];
    for (reason, expected) in reasons {
        assert_eq!(last(finish(reason)).0, format!("finish {expected} 90/29/25/30/0"));
    }
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    assert_eq!(last(blocked).0, "finish content-filter");
    assert!(last(finish("MALFORMED_FUNCTION_CALL")).1.unwrap().is_cut);
    let error = json!({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}});
    assert_eq!(last(error).1.unwrap().status, Some(503));
}

#[test]
fn a_conversation_is_encoded() {
    let signed = |signature: &str| Some(json!({"google": {"thoughtSignature": signature}}));
    let image = ModelFile {
        mime: "image/png".to_owned(),
        filename: None,
        url: "data:image/png;base64,AA==".to_owned(),
    };
    let mut request = sample_request("gemini-3-pro");
    request.temperature = Some(1.0);
    let options = json!({"thinkingConfig": {"thinkingLevel": "high"}, "safetySettings": []});
    request.options = options.as_object().unwrap().clone();
    request.messages.extend([
        ModelMessage::Assistant(vec![
            AssistantContent::Reasoning { text: "hm".to_owned(), metadata: signed("S0") },
            AssistantContent::Reasoning { text: "unsigned".to_owned(), metadata: None },
            AssistantContent::Text { text: "I read.".to_owned(), metadata: None },
            AssistantContent::ToolCall {
                call: "c1".to_owned(),
                tool: "read".to_owned(),
                input: json!({"a": 1}),
                metadata: signed("S1"),
            },
            AssistantContent::ToolCall {
                call: "c2".to_owned(),
                tool: "read".to_owned(),
                input: json!("broken"),
                metadata: None,
            },
        ]),
        ModelMessage::Tool(vec![
            ToolResult {
                call: "c1".to_owned(),
                tool: "read".to_owned(),
                output: ToolOutput::Text { text: "A".to_owned(), files: vec![image.clone()] },
            },
            ToolResult {
                call: "c2".to_owned(),
                tool: "read".to_owned(),
                output: ToolOutput::Error { text: "no".to_owned() },
            },
        ]),
        ModelMessage::User(vec![UserContent::File(image)]),
    ]);
    let encoded_image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let expected = json!({
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "S0"},
                {"text": "I read."},
                {"functionCall": {"name": "read", "args": {"a": 1}}, "thoughtSignature": "S1"},
                {"functionCall": {"name": "read", "args": {"arguments": "broken"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "A"}}},
                {"functionResponse": {"name": "read", "response": {"error": "no"}}},
            ]},
            {"role": "user", "parts": [encoded_image]},
            {"role": "user", "parts": [encoded_image]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"filePath": {"type": "string"}}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 1000, "temperature": 1.0, "thinkingConfig": {"thinkingLevel": "high"}},
        "safetySettings": [],
    });
    let mut settings = ProviderSettings::new("google", WireKind::Gemini, "https://host/v1beta");
    settings.key = Some("k".to_owned());
    let sent = GeminiFormat.encode(&request, &settings);
    assert_eq!(sent.route, "models/gemini-3-pro:streamGenerateContent?alt=sse");
    assert_eq!(sent.key_header, Some(("x-goog-api-key".to_owned(), "k".to_owned())));
    assert_eq!(Value::Object(sent.body), expected);
}

#[test]
fn calls_in_pieces_are_refused_instead_of_made_half() {
    let chunks = [
        parts(&json!([{"functionCall": {"name": "write", "willContinue": true}}])),
        parts(
            &json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}}]),
        ),
        finish("STOP"),
    ];
    let (events, failure) = decode_every_cut(&GeminiFormat, &stream(&chunks));
    assert!(events.is_empty());
    assert_eq!(failure.unwrap().kind(true), crate::model::ModelErrorKind::Rejected);
}
