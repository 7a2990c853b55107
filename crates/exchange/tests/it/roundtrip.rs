//! Export, import, export: equal as JSON values.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::case::{ImportFixture, TestResult, is_clean};

/// Imports a document into a new store and exports it again.
fn import_and_export(document: &Value) -> TestResult<Value> {
    let case = ImportFixture::new()?;
    let file = case.write("document.json", document)?;
    let report = case.import(&file)?;
    assert!(is_clean(&report), "{report:#?}");
    case.export(document["info"]["id"].as_str().ok_or("no id")?)
}

#[test]
fn real_export_document_round_trips() -> TestResult {
    let golden: Value = serde_json::from_str(include_str!("data/opencode-export.json"))?;
    assert_eq!(import_and_export(&golden)?, golden);
    Ok(())
}

#[test]
fn old_diffs_with_file_contents_round_trip_and_redact() -> TestResult {
    let mut document: Value = serde_json::from_str(include_str!("data/opencode-export.json"))?;
    document["messages"][0]["info"]["summary"]["diffs"][0]["before"] = json!("whole file");
    document["messages"][0]["info"]["variant"] = json!("high");
    assert_eq!(import_and_export(&document)?, document);
    let case = ImportFixture::new()?;
    case.import(&case.write("document.json", &document)?)?;
    let sanitized = case.export_redacted(document["info"]["id"].as_str().ok_or("no id")?)?;
    let diff = &sanitized["messages"][0]["info"]["summary"]["diffs"][0];
    assert_eq!(diff["before"], "[redacted:message-diff-before:0]");
    assert!(!sanitized.to_string().contains("whole file"));
    Ok(())
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "\\PC{0,12}", Just("\u{0}\"\\\u{1F600}\n".to_owned())]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-5i64..2_000_000_000_000).prop_map(Value::from),
        (0u32..1_000_000).prop_map(|n| Value::from(f64::from(n) / 1000.0 + 0.0001)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            object(inner),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((word(), value), 0..4).prop_map(|pairs| {
        let pairs = pairs.into_iter().map(|(key, value)| (format!("x{key}"), value));
        Value::Object(pairs.collect::<Map<_, _>>())
    })
}

fn tokens() -> impl Strategy<Value = Value> {
    prop::array::uniform5(0u32..100_000).prop_map(|[a, b, c, d, e]| {
        json!({ "input": a, "output": b, "reasoning": c, "cache": { "read": d, "write": e } })
    })
}

/// The state of a call that is over: an open one is ended by the import.
fn tool_state() -> impl Strategy<Value = Value> {
    (0..2, word(), object(any_value()), object(any_value())).prop_map(|(status, said, input, data)| {
        match status {
            0 => json!({ "status": "completed", "input": input, "output": said, "title": said,
                         "metadata": data, "time": { "start": 5, "end": 6, "compacted": 7 },
                         "attachments": [{ "id": "prt_att", "type": "file", "mime": "a/b", "url": said }] }),
            _ => json!({ "status": "error", "input": input, "error": said, "metadata": data,
                         "time": { "start": 5, "end": 6 } }),
        }
    })
}

/// The body of a part of any type.
fn part() -> impl Strategy<Value = Value> {
    let words = (word(), word(), any_value());
    let plain = (0..10, words).prop_map(|(kind, (a, b, extra))| match kind {
        0 => json!({ "type": "text", "text": a, "synthetic": true, "metadata": { "k": extra } }),
        1 => json!({ "type": "reasoning", "text": a, "time": { "start": 1, "end": 2 } }),
        2 => json!({ "type": "file", "mime": a, "url": b, "filename": a, "source": { "path": b } }),
        3 => json!({ "type": "agent", "name": a, "source": { "value": b, "start": 0, "end": 1 } }),
        4 => json!({ "type": "step-start", "snapshot": a }),
        5 => json!({ "type": "snapshot", "snapshot": a, "unknown": extra }),
        6 => json!({ "type": "patch", "hash": a, "files": [a, b] }),
        7 => json!({ "type": "subtask", "prompt": a, "description": b, "agent": a, "command": b }),
        8 => json!({ "type": "compaction", "auto": true, "overflow": false, "tail_start_id": "msg_0" }),
        _ => json!({ "type": "of-the-future", "beam": extra }),
    });
    let tool = (tool_state(), word()).prop_map(
        |(state, name)| json!({ "type": "tool", "callID": name, "tool": "bash", "state": state }),
    );
    let step = (tokens(), 0u32..100_000_000).prop_map(|(tokens, cost)| {
        let cost = f64::from(cost) / 7e6;
        json!({ "type": "step-finish", "reason": "stop", "cost": cost, "tokens": tokens })
    });
    prop_oneof![3 => plain, 1 => tool, 1 => step]
}

fn info() -> impl Strategy<Value = Value> {
    (any::<bool>(), word(), number(), tokens(), any_value()).prop_map(
        |(user, said, at, tokens, extra)| {
            if user {
                return json!({ "role": "user", "time": { "created": at }, "agent": said,
                    "model": { "providerID": "p", "modelID": said }, "system": said, "unknown": extra,
                    "summary": { "title": said, "diffs": [{ "file": said, "additions": 1, "deletions": 0 }] } });
            }
            json!({ "role": "assistant", "time": { "created": at, "completed": at }, "parentID": "msg_0",
                "modelID": "m", "providerID": "p", "mode": said, "agent": said,
                "path": { "cwd": said, "root": said }, "cost": at, "tokens": tokens, "structured": [extra],
                "error": { "name": "APIError", "data": { "message": said, "isRetryable": false } } })
        },
    )
}

fn document() -> impl Strategy<Value = Value> {
    let message = (info(), prop::collection::vec(part(), 0..5));
    let session = (word(), number(), tokens(), object(any_value()), any::<bool>());
    (session, prop::collection::vec(message, 0..6)).prop_map(
        |((title, cost, tokens, metadata, more), messages)| {
            let mut info = json!({ "id": "ses_generated", "slug": "s", "projectID": "p", "directory": "/w",
                "path": "", "title": title, "version": "1", "cost": cost, "tokens": tokens,
                "metadata": metadata, "time": { "created": 1, "updated": 2, "archived": -3.5 },
                "future": { "field": title } });
            if more {
                info["revert"] = json!({ "messageID": "msg_0", "partID": "prt_0_0", "diff": title });
                info["parentID"] = json!("ses_nobody");
                info["permission"] = json!([{ "permission": "*", "pattern": title, "action": "ask" }]);
                info["summary"] = json!({ "additions": 1, "deletions": 2, "files": 3 });
            }
            let messages: Vec<Value> = messages.into_iter().enumerate().map(named).collect();
            json!({ "info": info, "messages": messages })
        },
    )
}

/// Gives a message and its parts their ids.
fn named((index, (mut info, parts)): (usize, (Value, Vec<Value>))) -> Value {
    let id = format!("msg_{index}");
    info["id"] = json!(id);
    info["sessionID"] = json!("ses_generated");
    let parts: Vec<Value> = parts
        .into_iter()
        .enumerate()
        .map(|(part, mut body)| {
            body["id"] = json!(format!("prt_{index}_{part}"));
            body["sessionID"] = json!("ses_generated");
            body["messageID"] = json!(id);
            body
        })
        .collect();
    json!({ "info": info, "parts": parts })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_document_comes_back_as_it_was(document in document()) {
        let once = import_and_export(&document).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(&once, &document);
        let twice = import_and_export(&once).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        prop_assert_eq!(once, twice);
    }
}
