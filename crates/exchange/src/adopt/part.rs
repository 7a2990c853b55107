//! Parts.

use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::Part;
use turnstone_core::wire::{self, Mode, Precision};

use super::field::{Refused, fill, object, own, refer};
use super::message::tokens;

/// A part of `message`; true if fields had to be filled in.
pub(crate) fn part(
    id: &str,
    (session, message): (&SessionId, &MessageId),
    body: Value,
) -> Result<(Part, bool), Refused> {
    let mut map = object(body, &["id", "sessionID", "messageID"])?;
    let own_id: PartId = own(id, &mut map)?;
    let mut filled = complete(&mut map);
    filled |= wire::repair_moments(&mut map, Precision::Whole);
    map.insert("id".to_owned(), Value::String(own_id.to_string()));
    map.insert("sessionID".to_owned(), Value::String(session.to_string()));
    map.insert("messageID".to_owned(), Value::String(message.to_string()));
    let part = wire::parse_part(Value::Object(map), Mode::Lenient).map_err(|e| e.reason)?;
    Ok((part, filled))
}

/// What a part of today has and an older one may lack.
fn complete(map: &mut Map<String, Value>) -> bool {
    match map.get("type").and_then(Value::as_str) {
        Some("reasoning") => fill(map, "time", json!({ "start": 0 })),
        Some("tool") => tool(map),
        Some("step-finish") => {
            let mut filled = fill(map, "reason", json!("unknown"));
            filled |= fill(map, "cost", json!(0));
            filled | tokens(map)
        }
        Some("compaction") => {
            refer::<MessageId>(map, "tail_start_id");
            fill(map, "auto", json!(false))
        }
        Some("patch") => fill(map, "files", json!([])),
        _ => false,
    }
}

fn tool(map: &mut Map<String, Value>) -> bool {
    if map.get("tool").and_then(Value::as_str) == Some("task") {
        child(map);
    }
    let Some(state) = map.get_mut("state").and_then(Value::as_object_mut) else {
        return false;
    };
    let mut filled = fill(state, "input", json!({}));
    match state.get("status").and_then(Value::as_str) {
        Some("running") => filled |= fill(state, "time", json!({ "start": 0 })),
        Some("completed") => {
            for (key, value) in
                [("output", json!("")), ("title", json!("")), ("metadata", json!({}))]
            {
                filled |= fill(state, key, value);
            }
            filled |= fill(state, "time", json!({ "start": 0, "end": 0 }));
        }
        Some("error") => {
            filled |= fill(state, "error", json!(""));
            filled |= fill(state, "time", json!({ "start": 0, "end": 0 }));
        }
        _ => {}
    }
    filled
}

/// The task tool names the child session in its metadata.
fn child(map: &mut Map<String, Value>) {
    let metadata = map.get_mut("state").and_then(|state| state.get_mut("metadata"));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else {
        return;
    };
    if metadata.get("sessionId").is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty())) {
        refer::<SessionId>(metadata, "sessionId");
    }
}
