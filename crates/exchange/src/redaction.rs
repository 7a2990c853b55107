//! Redaction of an export document, as `opencode export --sanitize` does it.
//!
//! Text that is not blank becomes `[redacted:<kind>:<id>]`, an object that is not empty becomes
//! `{"redacted": "<kind>:<id>"}`. Ids, times, models, tokens, costs, errors and the structure stay.
//! Two departures, both where OpenCode would print whole files: `before` and `after` of diffs written
//! by OpenCode 1.2 are redacted too, and a part of an unknown type keeps nothing but its type and ids.

use serde_json::{Map, Value, json};

type JsonObject = Map<String, Value>;

/// Returns the document without what was said and done in it.
pub(crate) fn redact_document(mut document: Value) -> Value {
    if let Some(info) = document.get_mut("info").and_then(Value::as_object_mut) {
        redact_session(info);
    }
    for message in array_mut(&mut document, "messages") {
        if let Some(info) = message.get_mut("info").and_then(Value::as_object_mut) {
            redact_message(info);
        }
        for part in array_mut(message, "parts").iter_mut().filter_map(Value::as_object_mut) {
            redact_part(part);
        }
    }
    document
}

fn array_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut [Value] {
    value.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn id_of(map: &JsonObject) -> String {
    map.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Redacts the text under `key`, if there is one and it says something.
fn redact_text(map: &mut JsonObject, key: &str, kind: &str, id: &str) {
    if let Some(Value::String(text)) = map.get_mut(key)
        && !text.trim().is_empty()
    {
        *text = format!("[redacted:{kind}:{id}]");
    }
}

/// Redacts the object under `key`, if there is one and it holds something.
fn redact_data(map: &mut JsonObject, key: &str, kind: &str, id: &str) {
    let Some(value) = map.get_mut(key) else {
        return;
    };
    let empty = match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    };
    if !empty {
        *value = json!({ "redacted": format!("{kind}:{id}") });
    }
}

fn object_mut<'a>(map: &'a mut JsonObject, key: &str) -> Option<&'a mut JsonObject> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

fn redact_diffs(map: &mut JsonObject, kind: &str) {
    let Some(list) = map.get_mut("diffs").and_then(Value::as_array_mut) else {
        return;
    };
    for (index, diff) in list.iter_mut().enumerate() {
        let Some(diff) = diff.as_object_mut() else {
            continue;
        };
        for key in ["file", "patch", "before", "after"] {
            redact_text(diff, key, &format!("{kind}-{key}"), &index.to_string());
        }
    }
}

fn redact_session(info: &mut JsonObject) {
    let id = id_of(info);
    redact_text(info, "title", "session-title", &id);
    redact_text(info, "directory", "session-directory", &id);
    if let Some(summary) = object_mut(info, "summary") {
        redact_diffs(summary, "session-diff");
    }
    if let Some(revert) = object_mut(info, "revert") {
        redact_text(revert, "snapshot", "revert-snapshot", &id);
        redact_text(revert, "diff", "revert-diff", &id);
    }
}

fn redact_message(info: &mut JsonObject) {
    let id = id_of(info);
    if info.get("role").and_then(Value::as_str) == Some("user") {
        redact_text(info, "system", "system", &id);
        if let Some(summary) = object_mut(info, "summary") {
            redact_text(summary, "title", "summary-title", &id);
            redact_text(summary, "body", "summary-body", &id);
            redact_diffs(summary, "message-diff");
        }
        return;
    }
    if let Some(path) = object_mut(info, "path") {
        path.retain(|key, _| key == "cwd" || key == "root");
        redact_text(path, "cwd", "cwd", &id);
        redact_text(path, "root", "root", &id);
    }
}

fn redact_part(part: &mut JsonObject) {
    let id = id_of(part);
    match part.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => {
            redact_text(part, "text", "text", &id);
            redact_data(part, "metadata", "text-metadata", &id);
        }
        "reasoning" => {
            redact_text(part, "text", "reasoning", &id);
            redact_data(part, "metadata", "reasoning-metadata", &id);
        }
        "file" => redact_file(part),
        "subtask" => {
            redact_text(part, "prompt", "subtask-prompt", &id);
            redact_text(part, "description", "subtask-description", &id);
            redact_text(part, "command", "subtask-command", &id);
        }
        "tool" => redact_tool(part, &id),
        "patch" => {
            redact_text(part, "hash", "patch", &id);
            let files = part.get_mut("files").and_then(Value::as_array_mut);
            for (index, file) in files.into_iter().flatten().enumerate() {
                if file.as_str().is_some_and(|file| !file.trim().is_empty()) {
                    *file = Value::String(format!("[redacted:patch-file:{id}-{index}]"));
                }
            }
        }
        "snapshot" | "step-start" | "step-finish" => redact_text(part, "snapshot", "snapshot", &id),
        "agent" => {
            if let Some(source) = object_mut(part, "source") {
                redact_text(source, "value", "agent-source", &id);
            }
        }
        "compaction" | "retry" => {}
        _ => part.retain(|key, _| ["id", "sessionID", "messageID", "type"].contains(&key.as_str())),
    }
}

/// A file part or an attachment.
fn redact_file(part: &mut JsonObject) {
    let id = id_of(part);
    redact_text(part, "url", "file-url", &id);
    redact_text(part, "filename", "file-name", &id);
    let Some(source) = object_mut(part, "source") else {
        return;
    };
    match source.get("type").and_then(Value::as_str) {
        Some("symbol") => {
            redact_text(source, "path", "file-path", &id);
            redact_text(source, "name", "file-symbol", &id);
        }
        Some("resource") => {
            redact_text(source, "clientName", "file-client", &id);
            redact_text(source, "uri", "file-uri", &id);
        }
        _ => redact_text(source, "path", "file-path", &id),
    }
    if let Some(inner) = object_mut(source, "text") {
        redact_text(inner, "value", "file-text", &id);
    }
}

fn redact_tool(part: &mut JsonObject, id: &str) {
    redact_data(part, "metadata", "tool-metadata", id);
    let Some(state) = object_mut(part, "state") else {
        return;
    };
    redact_data(state, "input", "tool-input", id);
    redact_data(state, "metadata", "tool-state-metadata", id);
    redact_text(state, "raw", "tool-raw", id);
    redact_text(state, "title", "tool-title", id);
    redact_text(state, "output", "tool-output", id);
    let attachments = state.get_mut("attachments").and_then(Value::as_array_mut);
    for attachment in attachments.into_iter().flatten() {
        if let Some(attachment) = attachment.as_object_mut() {
            redact_file(attachment);
        }
    }
}
