//! What a model sees of stored messages: every rule of section 6.9, and the cases of 12.6.

use serde_json::{Value, json};
use turnstone_core::context::{
    ContextMessage, ModelTarget, estimate_model_tokens, find_tool_loop, to_model_messages,
};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, Part};

fn message(body: &Value, parts: &[Value]) -> ContextMessage {
    let id: MessageId = "msg_one".parse().expect("an id");
    let session: SessionId = "ses_one".parse().expect("an id");
    let part = |(index, body): (usize, &Value)| Part {
        id: format!("prt_{index}").parse().expect("an id"),
        session: session.clone(),
        message: id.clone(),
        body: serde_json::from_value(body.clone()).expect("a part"),
    };
    let parts = parts.iter().enumerate().map(part).collect();
    let body = serde_json::from_value(body.clone()).expect("a message");
    (Message { id: id.clone(), session: session.clone(), body }, parts)
}

fn user(parts: &[Value]) -> ContextMessage {
    let model = json!({ "providerID": "p", "modelID": "m" });
    message(
        &json!({ "role": "user", "time": { "created": 1 }, "agent": "build", "model": model }),
        parts,
    )
}

fn answer(error: Option<&str>, parts: &[Value]) -> ContextMessage {
    let mut body = json!({
        "role": "assistant", "time": { "created": 1 }, "parentID": "msg_zero", "modelID": "m",
        "providerID": "p", "mode": "build", "path": { "cwd": "/", "root": "/" }, "cost": 0,
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    if let Some(name) = error {
        body["error"] = json!({ "name": name, "data": { "message": "m" } });
    }
    message(&body, parts)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn step() -> Value {
    json!({ "type": "step-start" })
}

fn reasoning(text: &str, signed: bool) -> Value {
    let mut part = json!({ "type": "reasoning", "text": text, "time": { "start": 1, "end": 2 } });
    if signed {
        part["metadata"] = json!({ "anthropic": { "signature": "s" } });
    }
    part
}

fn tool(state: &Value) -> Value {
    json!({ "type": "tool", "callID": "c", "tool": "bash", "state": state,
        "metadata": { "openai": { "itemId": "i" } } })
}

fn completed(output: &str) -> Value {
    json!({ "status": "completed", "input": { "command": "ls" }, "output": output, "title": "t",
        "metadata": {}, "time": { "start": 1, "end": 2 } })
}

fn same() -> ModelTarget {
    ModelTarget { provider: "p".into(), model: "m".into(), ..ModelTarget::default() }
}

fn other() -> ModelTarget {
    ModelTarget { model: "other".into(), ..same() }
}

fn seen_by(target: &ModelTarget, entries: &[ContextMessage]) -> Value {
    serde_json::to_value(to_model_messages(entries, target)).expect("json")
}

fn visible(entries: &[ContextMessage]) -> Value {
    seen_by(&same(), entries)
}

fn call() -> Value {
    json!({ "type": "tool-call", "call": "c", "tool": "bash", "input": { "command": "ls" },
        "metadata": { "openai": { "itemId": "i" } } })
}

fn result(output: &Value) -> Value {
    json!({ "role": "tool", "content": [{ "call": "c", "tool": "bash", "output": output }] })
}

#[test]
fn empty_messages_are_omitted() {
    let ignored = json!({ "type": "text", "text": "x", "ignored": true });
    assert_eq!(visible(&[user(&[]), answer(None, &[])]), json!([]));
    assert_eq!(visible(&[user(&[ignored, text("")])]), json!([]));
    assert_eq!(visible(&[answer(None, &[step()])]), json!([]));
}

#[test]
fn inlined_text_files_are_not_sent_twice() {
    let file =
        |mime: &str| json!({ "type": "file", "mime": mime, "filename": "f", "url": "data:x" });
    let synthetic = json!({ "type": "text", "text": "read", "synthetic": true });
    let parts = [
        text("hi"),
        synthetic,
        file("text/plain"),
        file("application/x-directory"),
        file("image/png"),
    ];
    assert_eq!(
        visible(&[user(&parts)]),
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "hi" },
            { "type": "text", "text": "read" },
            { "type": "file", "mime": "image/png", "filename": "f", "url": "data:x" },
        ] }])
    );
    let bare = ModelTarget { without_media: true, ..same() };
    assert_eq!(
        seen_by(&bare, &[user(&[file("image/png")])]),
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "[Attached image/png: f]" } ] }])
    );
}

#[test]
fn compactions_and_subtasks_become_notes() {
    let parts = [
        json!({ "type": "compaction", "auto": true }),
        json!({ "type": "subtask", "prompt": "p", "description": "d", "agent": "general" }),
    ];
    assert_eq!(
        visible(&[user(&parts)]),
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "What did we do so far?" },
            { "type": "text", "text": "The following tool was executed by the user" },
        ] }])
    );
}

#[test]
fn failed_answer_is_dropped_unless_aborted_with_content() {
    let words = json!([{ "role": "assistant", "content": [{ "type": "text", "text": "a" }] }]);
    assert_eq!(visible(&[answer(Some("APIError"), &[text("a")])]), json!([]));
    assert_eq!(visible(&[answer(Some("MessageAbortedError"), &[text("a")])]), words);
    let thought = [step(), reasoning("r", false)];
    assert_eq!(visible(&[answer(Some("MessageAbortedError"), &thought)]), json!([]));
}

#[test]
fn other_model_gets_reasoning_as_text() {
    let entry = answer(None, &[reasoning("r", true), tool(&completed("out"))]);
    let output = result(&json!({ "type": "text", "text": "out" }));
    let metadata = json!({ "anthropic": { "signature": "s" } });
    assert_eq!(
        visible(std::slice::from_ref(&entry)),
        json!([{ "role": "assistant", "content": [
            { "type": "reasoning", "text": "r", "metadata": metadata }, call()] }, output])
    );
    let bare = json!({ "type": "tool-call", "call": "c", "tool": "bash",
        "input": { "command": "ls" } });
    assert_eq!(
        seen_by(&other(), &[entry]),
        json!([{ "role": "assistant", "content": [
            { "type": "text", "text": "r" }, bare] }, output])
    );
}

#[test]
fn pruned_output_is_replaced_and_files_dropped() {
    let mut state = completed("long");
    state["attachments"] = json!([{ "mime": "image/png", "url": "data:x" }]);
    state["time"]["compacted"] = json!(3);
    let cleared = result(&json!({ "type": "text", "text": "[Old tool result content cleared]" }));
    let found = visible(&[answer(None, &[tool(&state)])]);
    assert_eq!(found[1], cleared);
    assert_eq!(found.as_array().map(Vec::len), Some(2));
}

#[test]
fn every_call_has_a_result() {
    let of = |state: &Value| visible(&[answer(None, &[tool(state)])])[1].clone();
    let input = json!({ "command": "ls" });
    let pending = json!({ "status": "pending", "input": input, "raw": "" });
    let running = json!({ "status": "running", "input": input, "time": { "start": 1 } });
    for open in [pending, running] {
        let text = "[Tool execution was interrupted]";
        assert_eq!(of(&open), result(&json!({ "type": "error", "text": text })));
    }
    let mut failed = json!({ "status": "error", "input": input, "error": "no",
        "time": { "start": 1, "end": 2 } });
    assert_eq!(of(&failed), result(&json!({ "type": "error", "text": "no" })));
    failed["metadata"] = json!({ "output": "half" });
    assert_eq!(of(&failed), result(&json!({ "type": "error", "text": "no" })), "it failed itself");
    failed["metadata"] = json!({ "output": "half", "interrupted": true });
    assert_eq!(of(&failed), result(&json!({ "type": "text", "text": "half" })));
}

#[test]
fn media_outside_results_get_their_own_message() {
    let mut state = completed("out");
    state["attachments"] = json!([
        { "mime": "image/png", "url": "data:x" }, { "mime": "text/csv", "url": "data:y" }]);
    let entry = answer(None, &[tool(&state)]);
    let (png, csv) = (
        json!({ "mime": "image/png", "url": "data:x" }),
        json!({ "mime": "text/csv", "url": "data:y" }),
    );
    let apart = visible(std::slice::from_ref(&entry));
    assert_eq!(apart[1], result(&json!({ "type": "text", "text": "out", "files": [csv] })));
    assert_eq!(
        apart[2],
        json!({ "role": "user", "content": [
        { "type": "text", "text": "Attached image(s) from tool result:" },
        { "type": "file", "mime": "image/png", "url": "data:x" }] })
    );
    let able = ModelTarget { media_in_results: true, ..same() };
    let inside = seen_by(&able, &[entry]);
    assert_eq!(inside[1], result(&json!({ "type": "text", "text": "out", "files": [png, csv] })));
    assert_eq!(inside.as_array().map(Vec::len), Some(2));
}

#[test]
fn answer_is_split_at_step_start() {
    let parts = [step(), text("a"), tool(&completed("out")), step(), text("b")];
    let found = visible(&[answer(None, &parts)]);
    assert_eq!(
        found,
        json!([
            { "role": "assistant", "content": [{ "type": "text", "text": "a" }, call()] },
            result(&json!({ "type": "text", "text": "out" })),
            { "role": "assistant", "content": [{ "type": "text", "text": "b" }] },
        ])
    );
}

#[test]
fn empty_text_becomes_space_between_signed_reasoning() {
    let texts = |parts: &[Value]| {
        let found = visible(&[answer(None, parts)]);
        let content = found[0]["content"].as_array().cloned().unwrap_or_default();
        let is_text = |piece: &&Value| piece["type"] == "text";
        content.iter().filter(is_text).map(|piece| piece["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&[reasoning("r", true), text(""), reasoning("s", true)]), [json!(" ")]);
    assert!(texts(&[reasoning("r", true), text(""), reasoning("s", false)]).is_empty());
    assert!(texts(&[reasoning("r", true), text("")]).is_empty());
}

/// W2: what a crash left never reaches a model as an empty message.
#[test]
fn empty_answer_after_crash_is_not_sent() {
    assert_eq!(visible(&[answer(None, &[step(), text("")])]), json!([]));
}

#[test]
fn outputs_are_truncated_and_sizes_match_json() {
    let cut = ModelTarget { output_limit: Some(3), ..same() };
    let entry = answer(None, &[tool(&completed("äöüß!"))]);
    let text = "äöü\n[Tool output truncated for compaction: omitted 2 chars]";
    let found = seen_by(&cut, std::slice::from_ref(&entry));
    assert_eq!(found[1], result(&json!({ "type": "text", "text": text })));
    let whole = ModelTarget { output_limit: Some(5), ..same() };
    let found = seen_by(&whole, std::slice::from_ref(&entry));
    assert_eq!(found[1], result(&json!({ "type": "text", "text": "äöüß!" })));
    let json = visible(std::slice::from_ref(&entry)).to_string();
    let size = estimate_model_tokens(&[entry], &same());
    assert!(size.abs_diff(json.len() as u64 / 4) <= 2, "{size} of {}", json.len());
    assert_eq!(estimate_model_tokens(&[], &same()), 1, "two brackets");
}

/// W31: each step is a message of its own, so a loop is looked for over the whole turn.
#[test]
fn tool_loop_is_found_across_messages() {
    let one = || answer(None, &[step(), text("again"), tool(&completed("out"))]);
    let different = || {
        let mut state = completed("out");
        state["input"] = json!({ "command": "pwd" });
        answer(None, &[tool(&state)])
    };
    assert_eq!(find_tool_loop(&[one(), one(), one()]), Some("bash"));
    assert_eq!(find_tool_loop(&[one(), one()]), None);
    assert_eq!(find_tool_loop(&[one(), one(), different(), one()]), None);
    let pending = json!({ "status": "pending", "input": { "command": "ls" }, "raw": "" });
    assert_eq!(find_tool_loop(&[one(), one(), answer(None, &[tool(&pending)])]), None);
}
