//! Tests of the scripted model.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_core::context::{AssistantContent, ModelMessage, UserContent};

use super::{ScriptError, ScriptedProvider};
use crate::model::{
    FinishReason, ModelCall, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelUsage,
    Provider, ToolChoice, ToolSchema,
};

type Item = Result<ModelEvent, ModelError>;

fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    let tool = ToolSchema {
        name: "write".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    ModelRequest {
        model: "demo.json".to_owned(),
        system: Vec::new(),
        messages,
        tools: vec![tool],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        top_p: None,
        options: Map::new(),
        session: "ses_1".to_owned(),
        parent: None,
    }
}

fn script(script: &Value) -> ScriptedProvider {
    ScriptedProvider::from_json(&script.to_string()).unwrap()
}

fn start(provider: &ScriptedProvider, request: ModelRequest) -> (ModelCall, Receiver<Item>) {
    let (sender, receiver) = channel();
    let call = provider.start(request, Box::new(move |item| drop(sender.send(item))));
    (call, receiver)
}

/// Returns every item of one answer: the sink is dropped after the last.
fn answer(provider: &ScriptedProvider, request: ModelRequest) -> Vec<Item> {
    let (call, receiver) = start(provider, request);
    let items = receiver.iter().collect();
    drop(call);
    items
}

fn text_of(items: &[Item]) -> String {
    let deltas = items.iter().filter_map(|item| match item {
        Ok(ModelEvent::TextDelta { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    deltas.collect()
}

fn answered(text: &str, turn: u64) -> ModelMessage {
    let metadata = Some(json!({"scripted": {"turn": turn}}));
    ModelMessage::Assistant(vec![AssistantContent::Text { text: text.to_owned(), metadata }])
}

fn asked(text: &str) -> ModelMessage {
    ModelMessage::User(vec![UserContent::Text { text: text.to_owned() }])
}

#[test]
fn a_turn_plays_its_events_in_order() {
    let provider = script(&json!([[
        {"reasoning": "hm"},
        {"text": "one two", "delta_chars": 4},
        {"tool": "write", "input": {"filePath": "a"}},
        {"usage": {"input": 10, "output": 5, "cache_read": 3}},
    ]]));
    let metadata = Some(json!({"scripted": {"turn": 1}}));
    let delta = |text: &str| ModelEvent::TextDelta { id: "text-2".into(), text: text.into() };
    let (call, tool) = ("call_1_3".to_owned(), "write".to_owned());
    let arguments = r#"{"filePath":"a"}"#.to_owned();
    let usage = ModelUsage { input: 10, output: 5, cache_read: 3, ..ModelUsage::default() };
    let expected = [
        ModelEvent::ReasoningStarted { id: "reasoning-1".into(), metadata: metadata.clone() },
        ModelEvent::ReasoningDelta { id: "reasoning-1".into(), text: "hm".into() },
        ModelEvent::ReasoningEnded { id: "reasoning-1".into(), metadata: metadata.clone() },
        ModelEvent::TextStarted { id: "text-2".into(), metadata: metadata.clone() },
        delta("one "),
        delta("two"),
        ModelEvent::TextEnded { id: "text-2".into(), metadata: metadata.clone() },
        ModelEvent::ToolInputStarted { call: call.clone(), tool: tool.clone() },
        ModelEvent::ToolInputDelta { call: call.clone(), text: arguments.clone() },
        ModelEvent::ToolCalled { call, tool, arguments, metadata },
        ModelEvent::Finished { reason: FinishReason::ToolCalls, usage: Some(usage) },
    ];
    assert_eq!(answer(&provider, request(vec![asked("go")])), expected.map(Ok));
}

#[test]
fn the_conversation_alone_decides_which_turn_comes() {
    let turns = json!([[{"text": "one"}], [{"text": "two"}], [{"text": "three"}]]);
    let history = [asked("go"), answered("one", 1), asked("on"), answered("two", 2), asked("on")];
    let expected = ["one", "two", "two", "three", "three"];
    for (length, expected) in (1..).zip(expected) {
        // A new provider each time: a restart changes nothing.
        let items = answer(&script(&turns), request(history[..length].to_vec()));
        assert_eq!(text_of(&items), expected, "{length} messages");
    }
    // What another model said does not count, and a compaction leaves the newest number.
    let other = AssistantContent::Text { text: "other".to_owned(), metadata: None };
    let history = vec![asked("go"), ModelMessage::Assistant(vec![other])];
    assert_eq!(text_of(&answer(&script(&turns), request(history))), "one");
    assert_eq!(text_of(&answer(&script(&turns), request(vec![answered("sum", 2)]))), "three");
}

#[test]
fn a_script_that_has_ended_rejects_the_request() {
    let provider = script(&json!([[{"text": "one"}]]));
    let items = answer(&provider, request(vec![answered("one", 1)]));
    let [Err(error)] = &items[..] else { panic!("one error: {items:?}") };
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert_eq!(error.message, "the script has ended: it has 1 turns");
}

#[test]
fn an_error_is_given_as_often_as_the_script_says() {
    let error = json!({"message": "busy", "status": 429, "retry_after": 1500, "times": 2});
    let provider = script(&json!([[{"text": "a"}, {"error": error}, {"text": "b"}]]));
    for _ in 0..2 {
        let items = answer(&provider, request(vec![asked("go")]));
        let Some(Err(error)) = items.last() else { panic!("an error: {items:?}") };
        assert_eq!(text_of(&items), "a");
        assert_eq!((error.kind, error.status), (ModelErrorKind::Retryable, Some(429)));
        assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
    }
    let items = answer(&provider, request(vec![asked("go")]));
    assert_eq!(text_of(&items), "ab");
    let finished = ModelEvent::Finished { reason: FinishReason::Stop, usage: None };
    assert_eq!(items.last(), Some(&Ok(finished)));
}

#[test]
fn subagents_and_requests_without_tools_have_answers_of_their_own() {
    let provider = script(&json!({
        "turns": [[{"text": "main"}]],
        "subagent_turns": [[{"text": "child"}]],
        "without_tools": [{"text": "title"}],
    }));
    let main = request(vec![asked("go")]);
    let child = ModelRequest { parent: Some("ses_0".to_owned()), ..main.clone() };
    let title = ModelRequest { tools: Vec::new(), ..main.clone() };
    let late = ModelRequest { messages: vec![answered("main", 1)], ..title.clone() };
    for (request, expected) in [(main, "main"), (child, "child"), (title, "title"), (late, "title")]
    {
        assert_eq!(text_of(&answer(&provider, request)), expected);
    }
}

#[test]
fn raw_arguments_and_finish_reasons_are_given_as_written() {
    let call = json!({"tool": "write", "arguments": "{\"a\": ", "call": "c1"});
    let provider = script(&json!([[call, {"finish": "length"}]]));
    let items = answer(&provider, request(Vec::new()));
    let called = items.iter().find_map(|item| match item {
        Ok(ModelEvent::ToolCalled { call, arguments, .. }) => Some((call, arguments)),
        _ => None,
    });
    assert_eq!(called, Some((&"c1".to_owned(), &"{\"a\": ".to_owned())));
    let finished = ModelEvent::Finished { reason: FinishReason::Length, usage: None };
    assert_eq!(items.last(), Some(&Ok(finished)));
}

#[test]
fn dropping_the_call_ends_a_pause() {
    let provider = script(&json!([[{"text": "a"}, {"pause": 3_600_000}, {"text": "b"}]]));
    let (call, receiver) = start(&provider, request(Vec::new()));
    let first = receiver.recv().unwrap().unwrap();
    assert!(matches!(first, ModelEvent::TextStarted { .. }));
    drop(call);
    // The sink is gone: the channel ends instead of waiting for an hour.
    let rest: Vec<Item> = receiver.iter().collect();
    assert!(!text_of(&rest).contains('b'));
}

#[test]
fn an_answer_waits_for_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go");
    let provider = script(&json!([[{"text": "a"}, {"wait_for_file": file}, {"text": "b"}]]));
    let (call, receiver) = start(&provider, request(Vec::new()));
    for _ in 0..3 {
        receiver.recv().unwrap().unwrap();
    }
    assert!(receiver.try_recv().is_err(), "the answer goes on without its file");
    fs_err::write(&file, "").unwrap();
    let rest: Vec<Item> = receiver.iter().collect();
    assert_eq!(text_of(&rest), "b");
    drop(call);
}

#[test]
fn a_mistake_names_its_turn_and_event() {
    let text = json!({"text": "a"});
    let wrong = [
        json!({"txt": "a"}),
        json!({"text": "a", "pause": 1}),
        json!({"text": "a", "reasoning": "b"}),
        json!({}),
        json!({"text": "a", "delta_chars": 0}),
        json!({"pause": 1, "delta_chars": 2}),
        json!({"text": "a", "input": {}}),
        json!({"tool": "a", "input": {}, "arguments": ""}),
        json!({"finish": "bored"}),
        json!({"error": {"message": "a", "kind": "odd"}}),
        json!({"error": {"kind": "retryable"}}),
        json!("text"),
    ];
    for entry in wrong {
        let script = json!([[text], [text, entry]]);
        let Err(ScriptError::Event { list, turn, event, problem }) =
            ScriptedProvider::from_json(&script.to_string())
        else {
            panic!("{entry} is accepted");
        };
        assert_eq!((list, turn, event), ("turns", 2, 2), "{entry}: {problem}");
        assert!(!problem.is_empty());
    }
    assert!(matches!(ScriptedProvider::from_json("[]"), Err(ScriptError::Empty)));
    for text in ["", "3", "{}", r#"{"turns": [], "other": 1}"#] {
        let read = ScriptedProvider::from_json(text);
        assert!(matches!(read, Err(ScriptError::Format(_))), "{text}");
    }
}
