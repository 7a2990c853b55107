//! What a summary is made from: the transcript of a conversation, and prompts that are asked again.

mod support;

use serde_json::{Value, json};
use turnstone_core::context::{
    ContextMessage, completed_compactions, render_transcript, replay_prompt_parts,
    summarized_request,
};
use turnstone_core::id::MessageId;
use turnstone_core::model::PartBody;

use support::conversation_messages::{message, user_with};

fn assistant(id: &str, parent: &str, more: &Value, parts: &[Value]) -> ContextMessage {
    let zero =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let mut body = json!({
        "role": "assistant", "time": { "created": 1 }, "parentID": format!("msg_{parent}"),
        "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": zero,
    });
    for (key, value) in more.as_object().expect("fields") {
        body[key] = value.clone();
    }
    message(id, body, parts)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn file(mime: &str) -> Value {
    json!({ "type": "file", "mime": mime, "filename": "name", "url": "data:," })
}

fn tool(state: &Value) -> Value {
    json!({ "type": "tool", "callID": "c", "tool": "bash", "state": state })
}

fn completed(output: &str, time: &Value) -> Value {
    tool(&json!({ "status": "completed", "input": {}, "output": output, "title": "",
        "metadata": {}, "time": time }))
}

fn paragraphs(messages: &[ContextMessage]) -> Vec<String> {
    render_transcript(messages).split("\n\n").map(str::to_owned).collect()
}

#[test]
fn transcript_says_who_wrote_what() {
    let ignored = json!({ "type": "text", "text": "not for models", "ignored": true });
    let shown = paragraphs(&[
        user_with("a", &[text("fix it"), ignored, text(""), file("image/png"), file("text/plain")]),
        assistant(
            "b",
            "a",
            &json!({}),
            &[
                json!({ "type": "reasoning", "text": "think", "time": { "start": 1 } }),
                json!({ "type": "reasoning", "text": "  ", "time": { "start": 1 } }),
                text(""),
                text("done"),
                json!({ "type": "step-start" }),
            ],
        ),
    ]);

    assert_eq!(
        shown,
        [
            "User: fix it",
            "User: [Attached image/png: name]",
            "Assistant, thinking: think",
            "Assistant: done"
        ]
    );
}

#[test]
fn transcript_shows_results_of_calls_up_to_a_limit() {
    let time = json!({ "start": 1, "end": 2 });
    let cleared = json!({ "start": 1, "end": 2, "compacted": 3 });
    let long = "x".repeat(2_003);
    let parts = [
        completed("short", &time),
        completed(&long, &time),
        completed("was cleared", &cleared),
        tool(&json!({ "status": "error", "input": {}, "error": "broken", "time": time })),
        tool(&json!({ "status": "running", "input": {}, "time": { "start": 1 } })),
    ];
    let shown = paragraphs(&[assistant("b", "a", &json!({}), &parts)]);

    assert_eq!(shown.len(), 10, "{shown:?}");
    assert!(shown.iter().step_by(2).all(|call| call == "Call of bash: {}"));
    assert_eq!(shown[1], "Result of bash: short");
    assert_eq!(shown[3], format!("Result of bash: {}\n[3 more characters]", "x".repeat(2_000)));
    assert!(!shown[5].contains("was cleared"), "{}", shown[5]);
    assert_eq!(shown[7], "Result of bash: failed: broken");
    assert!(shown[9].starts_with("Result of bash: "), "{}", shown[9]);
}

#[test]
fn prompt_is_asked_again_without_media_and_compaction() {
    let (_, parts) = user_with(
        "a",
        &[
            text("fix it"),
            file("image/png"),
            file("text/plain"),
            json!({ "type": "compaction", "auto": true }),
        ],
    );
    let again = replay_prompt_parts(&parts);

    assert_eq!(again.len(), 3);
    assert_eq!(again[0], parts[0].body);
    assert!(matches!(&again[1], PartBody::Text(it) if it.text == "[Attached image/png: name]"));
    assert_eq!(again[2], parts[2].body);
}

#[test]
fn each_summary_completes_its_own_request() {
    let request = |id: &str| user_with(id, &[json!({ "type": "compaction", "auto": true })]);
    let finished = json!({ "summary": true, "finish": "stop" });
    let messages = [
        request("a"),
        assistant("b", "a", &finished, &[]),
        request("c"),
        assistant("d", "c", &finished, &[]),
        assistant("e", "c", &json!({ "finish": "stop" }), &[]),
    ];
    let found: Vec<_> =
        completed_compactions(&messages).iter().map(|one| (one.request, one.summary)).collect();

    assert_eq!(found, [(0, 1), (2, 3)]);
    assert_eq!(summarized_request(&messages[3].0).map(MessageId::as_str), Some("msg_c"));
    assert_eq!(summarized_request(&messages[4].0), None);
}
