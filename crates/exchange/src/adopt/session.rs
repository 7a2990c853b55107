//! Sessions.

use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId, WorkspaceId};
use turnstone_core::model::Session;
use turnstone_core::wire;

use super::field::{Refused, fill, object, own, refer};
use super::place::lines;
use crate::identity::fit;

/// What a session need not have; one that cannot be read is left out rather than the session lost.
const OPTIONAL: &[&str] = &[
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
pub(crate) fn session(
    id: &str,
    project: &str,
    body: Value,
) -> Result<(Session, Vec<String>), Refused> {
    let mut map = object(body, &["id", "projectID"])?;
    map.retain(|_, value| !value.is_null());
    let own_id: SessionId = own(id, &mut map)?;
    let project =
        fit::<ProjectId>(project).ok_or_else(|| "the session names no project".to_owned())?.id;
    refer::<SessionId>(&mut map, "parentID");
    refer::<WorkspaceId>(&mut map, "workspaceID");
    complete(&mut map);
    map.insert("id".to_owned(), Value::String(own_id.to_string()));
    map.insert("projectID".to_owned(), Value::String(project.to_string()));
    let notes = leave_out(&mut map);
    let session = wire::parse_session(Value::Object(map)).map_err(|error| error.reason)?;
    Ok((session, notes))
}

/// What a session of today has and an older one may lack.
fn complete(map: &mut Map<String, Value>) {
    for key in ["slug", "directory", "title", "version"] {
        fill(map, key, Value::from(""));
    }
    let mut time = match map.remove("time") {
        Some(Value::Object(time)) => time,
        _ => Map::new(),
    };
    time.retain(|_, value| !value.is_null());
    let known = time.get("updated").or_else(|| time.get("created")).cloned();
    let known = known.unwrap_or_else(|| json!(0));
    fill(&mut time, "created", known.clone());
    fill(&mut time, "updated", known);
    map.insert("time".to_owned(), Value::Object(time));
    if let Some(summary) = map.get_mut("summary").and_then(Value::as_object_mut) {
        for key in ["additions", "deletions", "files"] {
            fill(summary, key, json!(0));
        }
        if let Some(diffs) = summary.remove("diffs").filter(|diffs| !diffs.is_null()) {
            summary.insert("diffs".to_owned(), lines(diffs));
        }
    }
    if let Some(revert) = map.get_mut("revert").and_then(Value::as_object_mut) {
        refer::<MessageId>(revert, "messageID");
        refer::<PartId>(revert, "partID");
    }
}

/// Removes the optional fields that cannot be read, each tried alone beside what a session must have.
fn leave_out(map: &mut Map<String, Value>) -> Vec<String> {
    if wire::parse_session(Value::Object(map.clone())).is_ok() {
        return Vec::new();
    }
    let mut bare = map.clone();
    for key in OPTIONAL {
        bare.remove(*key);
    }
    let mut notes = Vec::new();
    for key in OPTIONAL {
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
