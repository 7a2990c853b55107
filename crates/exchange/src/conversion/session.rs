//! Sessions.

use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId, WorkspaceId};
use turnstone_core::model::Session;
use turnstone_core::wire;

use super::json_field::{ConversionError, into_object, map_own_id, map_reference, set_if_missing};
use super::project_data::complete_line_counts;
use crate::foreign_id::map_foreign_id;

/// What a session need not have; one that cannot be read is left out rather than the session lost.
const OPTIONAL_FIELDS: &[&str] = &[
    "workspaceID",
    "path",
    "parentID",
    "summary",
    "share",
    "agent",
    "model",
    "metadata",
    "permission",
    "revert",
    "cost",
    "tokens",
];

/// A session of the project `project`; the texts say what was left out.
pub(crate) fn convert_session(
    id: &str,
    project: &str,
    body: Value,
) -> Result<(Session, Vec<String>), ConversionError> {
    let mut map = into_object(body, &["id", "projectID"])?;
    map.retain(|_, value| !value.is_null());
    let own_id: SessionId = map_own_id(id, &mut map)?;
    let project = map_foreign_id::<ProjectId>(project)
        .ok_or_else(|| "the session names no project".to_owned())?
        .id;
    map_reference::<SessionId>(&mut map, "parentID");
    map_reference::<WorkspaceId>(&mut map, "workspaceID");
    complete_session(&mut map);
    map.insert("id".to_owned(), Value::String(own_id.to_string()));
    map.insert("projectID".to_owned(), Value::String(project.to_string()));
    let notes = drop_unreadable_fields(&mut map);
    let session = wire::parse_session(Value::Object(map)).map_err(|error| error.reason)?;
    Ok((session, notes))
}

/// What a session of today has and an older one may lack.
fn complete_session(map: &mut Map<String, Value>) {
    for key in ["slug", "directory", "title", "version"] {
        set_if_missing(map, key, Value::from(""));
    }
    let mut time = match map.remove("time") {
        Some(Value::Object(time)) => time,
        _ => Map::new(),
    };
    time.retain(|_, value| !value.is_null());
    let known = time.get("updated").or_else(|| time.get("created")).cloned();
    let known = known.unwrap_or_else(|| json!(0));
    set_if_missing(&mut time, "created", known.clone());
    set_if_missing(&mut time, "updated", known);
    map.insert("time".to_owned(), Value::Object(time));
    if let Some(summary) = map.get_mut("summary").and_then(Value::as_object_mut) {
        for key in ["additions", "deletions", "files"] {
            set_if_missing(summary, key, json!(0));
        }
        if let Some(diffs) = summary.remove("diffs").filter(|diffs| !diffs.is_null()) {
            summary.insert("diffs".to_owned(), complete_line_counts(diffs));
        }
    }
    if let Some(revert) = map.get_mut("revert").and_then(Value::as_object_mut) {
        map_reference::<MessageId>(revert, "messageID");
        map_reference::<PartId>(revert, "partID");
    }
}

/// Removes the optional fields that cannot be read, each tried alone with what a session must have.
fn drop_unreadable_fields(map: &mut Map<String, Value>) -> Vec<String> {
    if wire::parse_session(Value::Object(map.clone())).is_ok() {
        return Vec::new();
    }
    let mut bare = map.clone();
    for key in OPTIONAL_FIELDS {
        bare.remove(*key);
    }
    let mut notes = Vec::new();
    for key in OPTIONAL_FIELDS {
        let Some(value) = map.get(*key).cloned() else {
            continue;
        };
        let mut alone = bare.clone();
        alone.insert((*key).to_owned(), value);
        if let Err(error) = wire::parse_session(Value::Object(alone)) {
            map.remove(*key);
            notes.push(format!("imported without {key}: {}", error.reason));
        }
    }
    notes
}
