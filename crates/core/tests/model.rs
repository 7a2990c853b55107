//! The stored model: what it accepts, what it refuses, and that nothing it is given gets lost.

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use turnstone_core::model::{
    MessageBody, MessageFailure, MessageFailureKind, PartBody, Project, Session, SessionStatus,
    Todo, ToolState, UserRequest,
};

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.clone())
}

fn round_trip<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let read: T = read(value).unwrap_or_else(|error| panic!("{error}: {value}"));
    serde_json::to_value(read).expect("JSON")
}

/// Reads and writes a value of the named kind.
fn through(kind: &str, value: &Value) -> Value {
    match kind {
        "session" => round_trip::<Session>(value),
        "message" => round_trip::<MessageBody>(value),
        "part" => round_trip::<PartBody>(value),
        "todo" => round_trip::<Todo>(value),
        "project" => round_trip::<Project>(value),
        other => panic!("no such kind: {other}"),
    }
}

fn minimal_session() -> Value {
    json!({
        "id": "ses_1", "slug": "keen-tern", "projectID": "global", "directory": "/home/user/project",
        "title": "T", "version": "1.18.33", "time": { "created": 1, "updated": 2 },
    })
}

fn full_session() -> Value {
    json!({
        "id": "ses_1", "slug": "keen-tern", "projectID": "39a9", "workspaceID": "wrk_1",
        "directory": "/home/user/project", "path": "sub", "parentID": "ses_0",
        "summary": {
            "additions": 1, "deletions": 2, "files": 3,
            "diffs": [
                {
                    "file": "a", "patch": "p", "additions": 1, "deletions": 0, "status": "added",
                    "before": "", "after": "x",
                },
            ],
        },
        "cost": 0.00248, "tokens": tokens(),
        "share": { "url": "https://example.invalid/s/1" }, "title": "T", "agent": "build",
        "model": { "id": "m", "providerID": "p", "variant": "default" }, "version": "1.18.33",
        "metadata": { "any": [1, { "thing": null }] },
        "time": { "created": 1, "updated": 2.5, "compacting": 3, "archived": -4 },
        "permission": [{ "permission": "bash", "pattern": "rm *", "action": "deny" }],
        "revert": { "messageID": "msg_1", "partID": "prt_1", "snapshot": "abc", "diff": "d" },
    })
}

fn tokens() -> Value {
    json!({
        "total": 10, "input": 1, "output": 2, "reasoning": 3, "cache": { "read": 4, "write": 5 },
    })
}

fn full_user() -> Value {
    json!({
        "role": "user", "time": { "created": 1_794_728_532_132.25 },
        "format": { "type": "json_schema", "schema": { "type": "object" }, "retryCount": 2 },
        "summary": { "title": "t", "body": "b", "diffs": [{ "additions": 0, "deletions": 0 }] },
        "agent": "build", "model": { "providerID": "p", "modelID": "m", "variant": "high" },
        "system": "s", "tools": { "bash": false },
    })
}

fn full_assistant() -> Value {
    json!({
        "role": "assistant", "time": { "created": 1.5, "completed": 2.75 },
        "error": {
            "name": "APIError",
            "data": {
                "message": "m", "statusCode": 429, "isRetryable": true,
                "responseHeaders": { "a": "b" }, "responseBody": "r", "metadata": { "url": "u" },
            },
        },
        "parentID": "msg_1", "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "summary": true, "cost": 0.5, "tokens": tokens(),
        "structured": { "answer": [1, 2] }, "variant": "v", "finish": "stop",
    })
}

/// Every kind of part of section 4.4 with every field it may have.
fn full_parts() -> Vec<Value> {
    let span = json!({ "value": "@a", "start": 0, "end": 2 });
    let range =
        json!({ "start": { "line": 1, "character": 2 }, "end": { "line": 3, "character": 4 } });
    let api_error = json!({ "name": "APIError", "data": { "message": "m", "isRetryable": true } });
    let mut parts = vec![
        json!({
            "type": "text", "text": "t", "synthetic": true, "ignored": false,
            "time": { "start": 1.5, "end": 2 }, "metadata": { "m": 1 },
        }),
        json!({
            "type": "reasoning", "text": "r", "metadata": { "signature": "s" },
            "time": { "start": 1, "end": 2 },
        }),
        json!({
            "type": "file", "mime": "text/plain", "filename": "a.txt", "url": "file:///a.txt",
            "source": { "type": "file", "text": span, "path": "a.txt" },
        }),
        json!({
            "type": "file", "mime": "text/plain", "url": "file:///a.rs",
            "source": {
                "type": "symbol", "text": span, "path": "a.rs", "range": range, "name": "f", "kind": 12,
            },
        }),
        json!({
            "type": "file", "mime": "text/plain", "url": "x",
            "source": { "type": "resource", "text": span, "clientName": "c", "uri": "u" },
        }),
        json!({ "type": "agent", "name": "explore", "source": span }),
        json!({ "type": "step-start", "snapshot": "abc" }),
        json!({
            "type": "step-finish", "reason": "stop", "snapshot": "abc", "cost": 0.25,
            "tokens": tokens(),
        }),
        json!({ "type": "snapshot", "snapshot": "abc" }),
        json!({ "type": "patch", "hash": "abc", "files": ["/home/user/project/a.txt"] }),
        json!({
            "type": "subtask", "prompt": "p", "description": "d", "agent": "general",
            "model": { "providerID": "p", "modelID": "m" }, "command": "review",
        }),
        json!({ "type": "retry", "attempt": 1, "error": api_error, "time": { "created": 1 } }),
        json!({ "type": "compaction", "auto": true, "overflow": false, "tail_start_id": "msg_1" }),
    ];
    let tool = |state| {
        json!({
            "type": "tool", "callID": "call_1", "tool": "read", "state": state,
            "metadata": { "providerExecuted": true },
        })
    };
    parts.extend(full_tool_states().into_iter().map(tool));
    parts
}

fn full_tool_states() -> Vec<Value> {
    let file = json!({
        "id": "prt_2", "sessionID": "ses_1", "messageID": "msg_1", "type": "file", "mime": "image/png",
        "url": "data:image/png;base64,AA==",
    });
    vec![
        json!({ "status": "pending", "input": {}, "raw": "{\"file" }),
        json!({
            "status": "running", "input": { "a": 1 }, "title": "t", "metadata": { "m": 1 },
            "time": { "start": 1.25 },
        }),
        json!({
            "status": "completed", "input": { "a": 1 }, "output": "o", "title": "t",
            "metadata": { "m": 1 }, "time": { "start": 1, "end": 2, "compacted": 3 },
            "attachments": [file],
        }),
        json!({
            "status": "error", "input": { "a": 1 }, "error": "e", "metadata": { "interrupted": true },
            "time": { "start": 1, "end": 2 },
        }),
    ]
}

fn full_project() -> Value {
    json!({
        "id": "39a9", "worktree": "/home/user/project", "vcs": "git", "name": "n",
        "icon": { "url": "u", "override": "o", "color": "blue" }, "commands": { "start": "make" },
        "time": { "created": 1, "updated": 2, "initialized": 3 }, "sandboxes": ["/home/user/other"],
    })
}

/// One full value of everything that carries unknown fields.
fn corpus() -> Vec<(&'static str, Value)> {
    let todo = json!({ "content": "c", "status": "pending", "priority": "high", "id": "1" });
    let mut all = vec![
        ("session", full_session()),
        ("message", full_user()),
        ("message", full_assistant()),
        ("project", full_project()),
        ("todo", todo),
    ];
    all.extend(full_parts().into_iter().map(|part| ("part", part)));
    all
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn minimal_session_round_trips() {
    let minimal = minimal_session();
    assert_eq!(round_trip::<Session>(&minimal), minimal);
}

#[test]
fn full_session_round_trips() {
    assert_eq!(round_trip::<Session>(&full_session()), full_session());
}

#[test]
fn absent_optional_fields_are_omitted() {
    let mut session = minimal_session();
    session["summary"] = json!({ "additions": 0, "deletions": 0, "files": 0 });
    session["revert"] = json!({ "messageID": "msg_1" });
    session["model"] = json!({ "id": "m", "providerID": "p" });
    let written = round_trip::<Session>(&session);
    assert_eq!(keys(&written["summary"]), ["additions", "deletions", "files"]);
    assert_eq!(keys(&written["revert"]), ["messageID"]);
    assert_eq!(keys(&written["time"]), ["created", "updated"]);
    assert_eq!(keys(&written["model"]), ["id", "providerID"]);
}

#[test]
fn null_is_read_as_absent() {
    let mut session = minimal_session();
    session["parentID"] = Value::Null;
    session["time"]["archived"] = Value::Null;
    assert_eq!(round_trip::<Session>(&session), minimal_session());
}

#[test]
fn diffs_may_lack_file_and_patch() {
    let mut session = minimal_session();
    session["summary"] = json!({
        "additions": 1, "deletions": 1, "files": 1, "diffs": [{ "additions": 1, "deletions": 1 }],
    });
    assert_eq!(round_trip::<Session>(&session), session);
    session["summary"]["diffs"][0] = json!({ "file": "a" });
    assert!(read::<Session>(&session).is_err(), "the counters are required");
}

#[test]
fn id_of_another_kind_is_rejected() {
    for (pointer, wrong) in [
        ("/id", "msg_1"),
        ("/parentID", "prt_1"),
        ("/workspaceID", "ses_1"),
        ("/revert/messageID", "ses_1"),
        ("/revert/partID", "msg_1"),
        ("/projectID", "../up"),
    ] {
        let mut session = full_session();
        *session.pointer_mut(pointer).expect("a field") = wrong.into();
        assert!(read::<Session>(&session).is_err(), "{pointer}");
    }
    let mut answer = full_assistant();
    answer["parentID"] = "ses_1".into();
    assert!(read::<MessageBody>(&answer).is_err());
    let tail = json!({ "type": "compaction", "auto": true, "tail_start_id": "prt_1" });
    assert!(read::<PartBody>(&tail).is_err());
}

/// Takes every field out in turn and lists those that cannot be missed.
fn required<T: DeserializeOwned>(full: &Value) -> Vec<&str> {
    let needed = |key: &&str| {
        let mut without = full.clone();
        without.as_object_mut().expect("an object").remove(*key);
        read::<T>(&without).is_err()
    };
    keys(full).into_iter().filter(needed).collect()
}

#[test]
fn missing_session_fields_are_rejected() {
    assert_eq!(
        required::<Session>(&full_session()),
        ["directory", "id", "projectID", "slug", "time", "title", "version"]
    );
    assert_eq!(required::<MessageBody>(&full_user()), ["agent", "model", "role", "time"]);
    assert_eq!(
        required::<MessageBody>(&full_assistant()),
        ["cost", "mode", "modelID", "parentID", "path", "providerID", "role", "time", "tokens"]
    );
    assert_eq!(required::<Project>(&full_project()), ["id", "time", "worktree"]);
}

#[test]
fn missing_part_fields_are_rejected() {
    let expected: Vec<&[&str]> = vec![
        &["text", "type"],
        &["text", "time", "type"],
        &["mime", "type", "url"],
        &["mime", "type", "url"],
        &["mime", "type", "url"],
        &["name", "type"],
        &["type"],
        &["cost", "reason", "tokens", "type"],
        &["snapshot", "type"],
        &["files", "hash", "type"],
        &["agent", "description", "prompt", "type"],
        &["attempt", "error", "time", "type"],
        &["auto", "type"],
        &["callID", "state", "tool", "type"],
        &["callID", "state", "tool", "type"],
        &["callID", "state", "tool", "type"],
        &["callID", "state", "tool", "type"],
    ];
    let parts = full_parts();
    let found: Vec<Vec<&str>> = parts.iter().map(required::<PartBody>).collect();
    assert_eq!(found, expected);
    let states = full_tool_states();
    let found: Vec<Vec<&str>> = states.iter().map(required::<ToolState>).collect();
    assert_eq!(found[0], ["input", "status"]);
    assert_eq!(found[1], ["input", "status", "time"]);
    assert_eq!(found[2], ["input", "metadata", "output", "status", "time", "title"]);
    assert_eq!(found[3], ["error", "input", "status", "time"]);
}

#[test]
fn status_is_idle_busy_or_retry() {
    let retry = json!({
        "type": "retry", "attempt": 1, "message": "m", "next": 5,
        "action": { "reason": "r", "provider": "p", "title": "t", "message": "m", "label": "l" },
    });
    for status in [json!({ "type": "idle" }), json!({ "type": "busy" }), retry] {
        assert_eq!(round_trip::<SessionStatus>(&status), status);
    }
    for wrong in [json!({ "type": "asleep" }), json!({ "type": "retry", "attempt": 1 }), json!({})]
    {
        assert!(read::<SessionStatus>(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn todo_has_three_fields() {
    let todo = json!({ "content": "c", "status": "anything", "priority": "whatever" });
    assert_eq!(round_trip::<Todo>(&todo), todo);
    assert_eq!(required::<Todo>(&todo), ["content", "priority", "status"]);
}

#[test]
fn unknown_part_type_is_rejected_but_kept_on_import() {
    let unknown = json!({ "type": "hologram", "depth": 3, "layers": [{ "z": 1.5 }] });
    let refused = read::<PartBody>(&unknown).expect_err("an unknown type");
    assert!(refused.to_string().contains("unknown part type"), "{refused}");
    let kept = PartBody::parse_lenient(unknown.clone()).expect("kept");
    assert_eq!(kept.type_name(), "hologram");
    assert_eq!(serde_json::to_value(&kept).expect("JSON"), unknown);
}

#[test]
fn invalid_known_part_is_rejected_on_import() {
    for wrong in [
        json!({ "type": "text" }),
        json!({ "type": "text", "text": 1 }),
        json!({ "type": "tool", "callID": "c", "tool": "t", "state": { "status": "napping" } }),
        json!({ "text": "no type" }),
        json!({ "type": 7 }),
        json!([]),
        json!("text"),
    ] {
        assert!(read::<PartBody>(&wrong).is_err(), "{wrong}");
        assert!(PartBody::parse_lenient(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn part_error_names_the_problem() {
    let why = |part: Value| read::<PartBody>(&part).expect_err("refused").to_string();
    assert_eq!(why(json!({ "type": "text" })), "text part: missing field `text`");
    assert_eq!(why(json!({ "text": "t" })), "a part needs a `type`");
    let tail = json!({ "type": "compaction", "auto": true, "tail_start_id": "prt_1" });
    assert_eq!(why(tail), "compaction part: \"prt_1\" is not a message id");
}

#[test]
fn every_part_round_trips() {
    for part in full_parts() {
        let body: PartBody = read(&part).expect("a part");
        assert_eq!(Some(body.type_name()), part["type"].as_str());
        assert_eq!(serde_json::to_value(&body).expect("JSON"), part);
        assert_eq!(PartBody::parse_lenient(part).expect("a part"), body);
    }
}

#[test]
fn every_failure_round_trips_and_unknown_names_are_kept() {
    for name in [
        "ProviderAuthError",
        "UnknownError",
        "MessageOutputLengthError",
        "MessageAbortedError",
        "StructuredOutputError",
        "ContextOverflowError",
        "ContentFilterError",
        "APIError",
        "SomeLaterError",
    ] {
        let error = json!({ "name": name, "data": { "message": "m" } });
        assert_eq!(round_trip::<MessageFailure>(&error), error);
        let failure: MessageFailure = read(&error).expect("a failure");
        let is_other = matches!(failure.name, MessageFailureKind::Other(_));
        assert_eq!(is_other, name == "SomeLaterError", "{name}");
    }
}

#[test]
fn old_user_message_variant_survives() {
    let mut older = full_user();
    older["model"] = json!({ "providerID": "p", "modelID": "m" });
    older["variant"] = "high".into();
    assert_eq!(round_trip::<MessageBody>(&older), older);
}

#[test]
fn fractional_times_survive() {
    let written = round_trip::<MessageBody>(&full_user());
    assert_eq!(written["time"]["created"], json!(1_794_728_532_132.25));
    assert_eq!(round_trip::<Session>(&full_session())["time"]["updated"], json!(2.5));
}

/// Proves R30.
#[test]
fn recorded_rows_round_trip() {
    let rows: Value = serde_json::from_str(include_str!("data/opencode-rows.json")).expect("JSON");
    for (list, kind) in [("parts", "part"), ("messages", "message")] {
        for row in rows[list].as_array().expect("rows") {
            assert_eq!(through(kind, row), *row);
        }
    }
}

/// Proves R30.
#[test]
fn recorded_export_round_trips() {
    let export: Value =
        serde_json::from_str(include_str!("data/opencode-export.json")).expect("JSON");
    assert_eq!(through("session", &export["info"]), export["info"]);
    for message in export["messages"].as_array().expect("messages") {
        assert_eq!(through("message", &message["info"]), message["info"]);
        for part in message["parts"].as_array().expect("parts") {
            assert_eq!(through("part", part), *part);
        }
    }
}

#[test]
fn requests_round_trip_in_every_state() {
    let tool = json!({ "messageID": "msg_1", "callID": "c" });
    let permission = json!({
        "kind": "permission", "permission": "bash", "patterns": ["ls"], "metadata": { "m": 1 },
        "always": ["ls *"], "tool": tool,
    });
    let question = json!({
        "kind": "question", "tool": tool,
        "questions": [{
            "question": "q", "header": "h", "options": [{ "label": "l", "description": "d" }],
            "multiple": true, "custom": false,
        }],
    });
    let states = [
        json!({ "is": "pending" }),
        json!({ "is": "replied", "reply": "reject", "message": "no" }),
        json!({ "is": "answered", "answers": [["l"]] }),
        json!({ "is": "rejected" }),
        json!({ "is": "withdrawn" }),
    ];
    let mut richer = question.clone();
    visit_objects(&mut richer, &mut |map| {
        map.insert("x-later".to_owned(), json!([1, null]));
    });
    for (id, body) in [("per_1", &permission), ("que_1", &question), ("que_2", &richer)] {
        for state in &states {
            let request = json!({ "id": id, "sessionID": "ses_1", "body": body, "state": state });
            assert_eq!(round_trip::<UserRequest>(&request), request);
        }
    }
    let wrong = json!({
        "id": "msg_1", "sessionID": "ses_1", "body": permission, "state": { "is": "pending" },
    });
    assert!(read::<UserRequest>(&wrong).is_err());
}

/// Calls `visit` with every object in a value, outermost first.
fn visit_objects(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            for (key, inner) in map.iter_mut() {
                if !key.starts_with("x-") {
                    visit_objects(inner, visit);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| visit_objects(inner, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e15..1e15_f64).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Proves R30.
    #[test]
    fn unknown_fields_survive_at_every_level(
        (kind, full) in prop::sample::select(corpus()),
        unknown in prop::collection::vec(("[A-Za-z_ä]{0,6}", any_json()), 1..12),
    ) {
        let mut value = full;
        let mut fields = unknown.iter().cycle();
        visit_objects(&mut value, &mut |map| {
            if let Some((key, field)) = fields.next() {
                map.insert(format!("x-{key}"), field.clone());
            }
        });
        prop_assert_eq!(through(kind, &value), value);
    }

    #[test]
    fn unknown_part_content_is_kept(
        fields in prop::collection::hash_map("[a-z]{1,6}", any_json(), 0..6),
        name in "x-[a-z]{1,6}",
    ) {
        let mut part: Map<String, Value> = fields.into_iter().collect();
        part.insert("type".to_owned(), name.into());
        let part = Value::Object(part);
        prop_assert!(read::<PartBody>(&part).is_err());
        let kept = PartBody::parse_lenient(part.clone()).expect("kept");
        prop_assert_eq!(serde_json::to_value(kept).expect("JSON"), part);
    }
}
