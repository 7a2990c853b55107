//! Tests of requests and answers over HTTP, and what the tests of each wire share.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_core::context::{ModelMessage, UserContent};
use turnstone_outbound::HttpClientSettings;
use turnstone_testkit::scripted_server::{ReplyPiece, ScriptedServer, ServerReply};

use super::*;
#[cfg(test)]
mod served_wires;
use crate::model::{ModelUsage, ToolChoice, ToolSchema};

/// Returns a request with one prompt and one tool.
pub(in crate::wire) fn sample_request(model: &str) -> ModelRequest {
    let tool = ToolSchema {
        name: "read".to_owned(),
        description: "Reads a file.".to_owned(),
        parameters: json!({"type": "object", "properties": {"filePath": {"type": "string"}}}),
    };
    let prompt = UserContent::Text { text: "go".to_owned() };
    ModelRequest {
        model: model.to_owned(),
        system: vec!["Be brief.".to_owned()],
        messages: vec![ModelMessage::User(vec![prompt])],
        tools: vec![tool],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(1000),
        temperature: None,
        top_p: None,
        options: Map::new(),
        session: "ses_1".to_owned(),
        parent: None,
    }
}

type Decoded = (Vec<ModelEvent>, Option<ProviderFailure>);

/// Decodes a stream that arrives in `pieces`.
fn decode(format: &dyn WireFormat, pieces: &[&[u8]]) -> Decoded {
    let (mut parser, mut decoder) = (EventStreamParser::default(), format.decoder());
    let (mut output, mut events) = (Vec::new(), Vec::new());
    for piece in pieces {
        parser.push(piece, &mut events).unwrap();
    }
    parser.finish(&mut events);
    events.retain(|data| is_json_or_end(data));
    for data in &events {
        if decoder.is_complete() {
            break;
        }
        if let Err(failure) = read_data(decoder.as_mut(), data, &mut output) {
            return (output, Some(failure));
        }
    }
    let failure = decoder.finish(&mut output).err();
    (output, failure)
}

/// Decodes a complete stream, however it is cut into pieces, and checks that no beginning of it is
/// taken for a complete answer with other events.
pub(in crate::wire) fn decode_every_cut(format: &dyn WireFormat, stream: &str) -> Decoded {
    let bytes = stream.as_bytes();
    let whole = decode(format, &[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_same(&decode(format, &single), &whole, "byte by byte");
    let lines = stream.replace('\n', "\r\n");
    assert_same(&decode(format, &[lines.as_bytes()]), &whole, "with CR LF");
    for cut in 0..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_same(&decode(format, &[head, tail]), &whole, &format!("cut at {cut}"));
        let (begun, failure) = decode(format, &[head]);
        match failure {
            Some(failure) if failure.is_cut => {
                let is_prefix = begun.len() <= whole.0.len()
                    && begun.iter().zip(&whole.0).all(|(one, other)| is_same(one, other));
                assert!(is_prefix, "ends at {cut}: {begun:?}");
            }
            Some(_) => {}
            None => assert!(matches!(begun.last(), Some(ModelEvent::Finished { .. }))),
        }
    }
    whole
}

fn assert_same(one: &Decoded, other: &Decoded, what: &str) {
    let is_equal = one.0.len() == other.0.len()
        && one.0.iter().zip(&other.0).all(|(one, other)| is_same(one, other));
    assert!(is_equal && one.1 == other.1, "{what}: {one:?}\nnot {other:?}");
}

/// Compares two events apart from minted names of calls.
fn is_same(one: &ModelEvent, other: &ModelEvent) -> bool {
    if one == other {
        return true;
    }
    let text = |event: &ModelEvent| {
        let text = format!("{event:?}");
        let minted = regex_automata::meta::Regex::new("call_[0-9a-f]{16}").unwrap();
        let found = minted.find(text.as_bytes()).map(|found| found.range());
        found.map_or(text.clone(), |range| text.replace(&text[range], "call"))
    };
    text(one) == text(other)
}

/// Writes events down shortly, so that a test reads like the answer.
pub(in crate::wire) fn outline(events: &[ModelEvent]) -> Vec<String> {
    let metadata = |metadata: &Option<Value>| match metadata {
        Some(metadata) => format!(" {metadata}"),
        None => String::new(),
    };
    let line = |event: &ModelEvent| match event {
        ModelEvent::ReasoningStarted { metadata: more, .. } => {
            format!("reasoning{}", metadata(more))
        }
        ModelEvent::ReasoningDelta { text, .. } => format!("reasoning: {text}"),
        ModelEvent::ReasoningEnded { metadata: more, .. } => {
            format!("reasoning end{}", metadata(more))
        }
        ModelEvent::TextStarted { metadata: more, .. } => format!("text{}", metadata(more)),
        ModelEvent::TextDelta { text, .. } => format!("text: {text}"),
        ModelEvent::TextEnded { metadata: more, .. } => format!("text end{}", metadata(more)),
        ModelEvent::ToolInputStarted { call, tool } => format!("tool {call} {tool}"),
        ModelEvent::ToolInputDelta { call, text } => format!("tool {call}: {text}"),
        ModelEvent::ToolCalled { call, tool, arguments, metadata: more } => {
            format!("call {call} {tool} {arguments}{}", metadata(more))
        }
        ModelEvent::Finished { reason, usage } => {
            let usage = usage.map(|usage| {
                let ModelUsage { input, output, reasoning, cache_read, cache_write, .. } = usage;
                format!(" {input}/{output}/{reasoning}/{cache_read}/{cache_write}")
            });
            format!("finish {}{}", reason.as_str(), usage.unwrap_or_default())
        }
    };
    events.iter().map(line).collect()
}

type Item = Result<ModelEvent, ModelError>;

fn provider(settings: ProviderSettings) -> std::sync::Arc<dyn Provider> {
    settings.connect(HttpClient::new(HttpClientSettings::new("test")).unwrap())
}

fn chat_settings(server: &ScriptedServer) -> ProviderSettings {
    let url = format!("{}/v1/", server.url());
    let settings = ProviderSettings::new("test", WireKind::ChatCompletions, &url);
    ProviderSettings { key: Some("sk-secret-key-1".to_owned()), ..settings }
}

fn start(settings: ProviderSettings) -> (ModelCall, Receiver<Item>) {
    let (sender, receiver) = channel();
    let sink = Box::new(move |item| drop(sender.send(item)));
    (provider(settings).start(sample_request("m"), sink), receiver)
}

fn answer(settings: ProviderSettings) -> Vec<Item> {
    let (call, receiver) = start(settings);
    let items = receiver.iter().collect();
    drop(call);
    items
}

fn error_of(items: Vec<Item>) -> ModelError {
    items.into_iter().last().unwrap().unwrap_err()
}

const CHAT_ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi ü\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
const CHAT_OUTLINE: [&str; 4] = ["text", "text: Hi ü", "text end", "finish stop 9/2/0/0/0"];

fn outline_of(items: Vec<Item>) -> Vec<String> {
    let events: Vec<ModelEvent> = items.into_iter().map(Result::unwrap).collect();
    outline(&events)
}

#[test]
fn a_request_carries_key_headers_and_extra_body() {
    let server = ScriptedServer::start_with(vec![ServerReply::events(CHAT_ANSWER)]).unwrap();
    let mut settings = chat_settings(&server);
    settings.headers = vec![("X-Title".to_owned(), "t".to_owned())];
    settings.extra_body = Map::from_iter([("extra".to_owned(), json!({"a": 1}))]);
    assert_eq!(outline_of(answer(settings)), CHAT_OUTLINE);
    let [request] = &server.requests()[..] else { panic!("one request") };
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer sk-secret-key-1"));
    assert_eq!(
        (request.header("x-title"), request.header("x-session-id")),
        (Some("t"), Some("ses_1"))
    );
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["model"], &body["extra"]["a"]), (&json!("m"), &json!(1)));
}

#[test]
fn the_users_headers_replace_ours() {
    let server = ScriptedServer::start_with(vec![ServerReply::events(CHAT_ANSWER)]).unwrap();
    let mut settings = chat_settings(&server);
    settings.headers = vec![("Authorization".to_owned(), "Custom abc".to_owned())];
    answer(settings);
    let [request] = &server.requests()[..] else { panic!("one request") };
    let values: Vec<_> =
        request.headers.iter().filter(|(name, _)| name == "authorization").collect();
    assert_eq!(values, [&("authorization".to_owned(), "Custom abc".to_owned())]);
}

#[test]
fn an_answer_may_arrive_byte_by_byte_or_without_a_stream() {
    let whole = json!({
        "choices": [{"message": {"role": "assistant", "content": "Hi ü"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    });
    let replies = vec![
        ServerReply::events(CHAT_ANSWER).in_pieces_of(1),
        ServerReply::json(200, &whole.to_string()),
        // The connection breaks after the reason: the answer is complete.
        ServerReply::events(CHAT_ANSWER.trim_end_matches("data: [DONE]\n\n")).then(ReplyPiece::Cut),
    ];
    let count = replies.len();
    let server = ScriptedServer::start_with(replies).unwrap();
    for _ in 0..count {
        assert_eq!(outline_of(answer(chat_settings(&server))), CHAT_OUTLINE);
    }
}

#[test]
fn broken_streams_can_be_retried() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let replies = vec![
        ServerReply::events(begun).then(ReplyPiece::Cut),
        ServerReply::events(begun),
        ServerReply::events(&format!("{begun}data: {{nonsense\n\n{begun}")),
        ServerReply::events(&format!(
            "{begun}data: {{\"error\":{{\"message\":\"worker died\"}}}}\n\n"
        )),
        ServerReply::events(""),
    ];
    let count = replies.len();
    let server = ScriptedServer::start_with(replies).unwrap();
    for number in 0..count {
        let error = error_of(answer(chat_settings(&server)));
        assert_eq!(error.kind, ModelErrorKind::Retryable, "{number}: {error}");
        assert!(error.url.unwrap().ends_with("/v1/chat/completions"));
    }
}

#[test]
fn errors_keep_what_helps_and_no_key() {
    let body = json!({"error": {
        "message": "Incorrect API key provided: sk-secret-key-1", "code": "invalid_api_key",
    }});
    let replies = vec![
        ServerReply::json(401, &body.to_string())
            .with_header("x-request-id", "r1")
            .with_header("set-cookie", "c"),
        ServerReply::json(429, "{\"error\":{\"message\":\"slow down\"}}")
            .with_header("retry-after-ms", "1500"),
        ServerReply::json(503, "<html>down</html>").with_header("retry-after", "2"),
        ServerReply::json(
            400,
            "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\"}}",
        ),
        ServerReply::json(400, &"x".repeat(200_000)),
        ServerReply::json(429, "{\"error\":{\"message\":\"quota\"}}")
            .with_header("x-should-retry", "false"),
    ];
    let server = ScriptedServer::start_with(replies).unwrap();
    let next = || error_of(answer(chat_settings(&server)));
    let error = next();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Authentication, Some(401)));
    assert_eq!(error.message, "Incorrect API key provided: [redacted]");
    assert!(!format!("{error:?}").contains("sk-secret"), "{error:?}");
    let names: Vec<&str> = error.response_headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "x-request-id"]);
    let error = next();
    assert_eq!(
        (error.kind, error.retry_after),
        (ModelErrorKind::Retryable, Some(Duration::from_millis(1500)))
    );
    let error = next();
    assert_eq!(
        (error.kind, error.retry_after),
        (ModelErrorKind::Retryable, Some(Duration::from_secs(2)))
    );
    assert_eq!(error.message, "the provider answers with status 503");
    assert_eq!(next().kind, ModelErrorKind::ContextOverflow);
    let error = next();
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert!(error.message.len() < 3000 && error.response_body.unwrap().len() < 5000);
    assert_eq!(next().kind, ModelErrorKind::Rejected);
}

#[test]
fn a_key_does_not_follow_a_redirect_and_unreachable_hosts_can_be_retried() {
    let other = ScriptedServer::start_with(vec![ServerReply::events(CHAT_ANSWER)]).unwrap();
    let moved = ServerReply::json(307, "").with_header("location", &format!("{}/x", other.url()));
    let server = ScriptedServer::start_with(vec![moved]).unwrap();
    let error = error_of(answer(chat_settings(&server)));
    assert_eq!(error.kind, ModelErrorKind::Rejected, "{error}");
    assert!(other.requests().is_empty());
    let settings = chat_settings(&server);
    drop(server);
    // The server has ended once a connection to it is refused.
    let error = error_of(answer(settings));
    assert_eq!(error.kind, ModelErrorKind::Retryable, "{error}");
    let invalid = ProviderSettings::new("test", WireKind::Gemini, "localhost:1");
    assert_eq!(error_of(answer(invalid)).kind, ModelErrorKind::Rejected);
}

#[test]
fn dropping_the_call_closes_the_connection_before_and_within_the_answer() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let reply = ServerReply::events(begun).then(ReplyPiece::WaitForClose);
    let server = ScriptedServer::start_with(vec![reply.clone(), reply]).unwrap();
    let (call, receiver) = start(chat_settings(&server));
    receiver.recv().unwrap().unwrap();
    drop(call);
    assert!(receiver.iter().all(|item| !matches!(item, Ok(ModelEvent::Finished { .. }) | Err(_))));
    drop(start(chat_settings(&server)));
    while server.open_connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_silent_provider_times_out_and_can_be_retried() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let reply = ServerReply::events(begun).then(ReplyPiece::WaitForClose);
    let server = ScriptedServer::start_with(vec![reply]).unwrap();
    let mut settings = chat_settings(&server);
    settings.timeouts.chunk = Some(Duration::from_millis(200));
    let error = error_of(answer(settings));
    assert_eq!(error.kind, ModelErrorKind::Retryable, "{error}");
}

#[test]
fn settings_show_no_secret() {
    let mut settings = ProviderSettings::new("p", WireKind::Gemini, "https://user:secret@host");
    settings.key = Some("secret".to_owned());
    settings.headers = vec![("x".to_owned(), "secret".to_owned())];
    assert!(!format!("{settings:?}").contains("secret"));
}
