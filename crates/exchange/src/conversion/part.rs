//! Parts.

use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::Part;
use turnstone_core::wire::{self, ParseMode, Precision};

use super::json_field::{ConversionError, into_object, map_own_id, map_reference, set_if_missing};
use super::message::complete_tokens;

/// A part of `message`; true if fields had to be filled in.
pub(crate) fn convert_part(
    id: &str,
    (session, message): (&SessionId, &MessageId),
    body: Value,
) -> Result<(Part, bool), ConversionError> {
    let mut map = into_object(body, &["id", "sessionID", "messageID"])?;
    let own_id: PartId = map_own_id(id, &mut map)?;
    let mut filled = complete_part(&mut map);
    filled |= wire::repair_moments(&mut map, Precision::Whole);
    map.insert("id".to_owned(), Value::String(own_id.to_string()));
    map.insert("sessionID".to_owned(), Value::String(session.to_string()));
    map.insert("messageID".to_owned(), Value::String(message.to_string()));
    let part = wire::parse_part(Value::Object(map), ParseMode::Lenient).map_err(|e| e.reason)?;
    Ok((part, filled))
}

/// What a part of today has and an older one may lack.
fn complete_part(map: &mut Map<String, Value>) -> bool {
    match map.get("type").and_then(Value::as_str) {
        Some("reasoning") => set_if_missing(map, "time", json!({ "start": 0 })),
        Some("tool") => complete_tool(map),
        Some("step-finish") => {
            let mut filled = set_if_missing(map, "reason", json!("unknown"));
            filled |= set_if_missing(map, "cost", json!(0));
            filled | complete_tokens(map)
        }
        Some("compaction") => {
            map_reference::<MessageId>(map, "tail_start_id");
            set_if_missing(map, "auto", json!(false))
        }
        Some("patch") => set_if_missing(map, "files", json!([])),
        _ => false,
    }
}

fn complete_tool(map: &mut Map<String, Value>) -> bool {
    if map.get("tool").and_then(Value::as_str) == Some("task") {
        map_child_session(map);
    }
    let Some(state) = map.get_mut("state").and_then(Value::as_object_mut) else {
        return false;
    };
    let mut filled = set_if_missing(state, "input", json!({}));
    match state.get("status").and_then(Value::as_str) {
        Some("running") => filled |= set_if_missing(state, "time", json!({ "start": 0 })),
        Some("completed") => {
            for (key, value) in
                [("output", json!("")), ("title", json!("")), ("metadata", json!({}))]
            {
                filled |= set_if_missing(state, key, value);
            }
            filled |= set_if_missing(state, "time", json!({ "start": 0, "end": 0 }));
        }
        Some("error") => {
            filled |= set_if_missing(state, "error", json!(""));
            filled |= set_if_missing(state, "time", json!({ "start": 0, "end": 0 }));
        }
        _ => {}
    }
    filled
}

/// The task tool names the child session in its metadata.
fn map_child_session(map: &mut Map<String, Value>) {
    let metadata = map.get_mut("state").and_then(|state| state.get_mut("metadata"));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else {
        return;
    };
    if metadata.get("sessionId").is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty())) {
        map_reference::<SessionId>(metadata, "sessionId");
    }
}
