//! Redaction of an export document, as `opencode export --sanitize` does it.
//!
//! Text that is not blank becomes `[redacted:<kind>:<id>]`, an object that is not empty becomes
//! `{"redacted": "<kind>:<id>"}`. Ids, times, models, tokens, costs, errors and the structure stay.
//! Two departures, both where OpenCode would print whole files: `before` and `after` of diffs written
//! by OpenCode 1.2 are redacted too, and a part of an unknown type keeps nothing but its type and ids.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// Returns the document without what was said and done in it.
pub(crate) fn sanitized(mut document: Value) -> Value {
    if let Some(info) = document.get_mut("info").and_then(Value::as_object_mut) {
        session(info);
    }
    for message in list(&mut document, "messages") {
        if let Some(info) = message.get_mut("info").and_then(Value::as_object_mut) {
            message_info(info);
        }
        for part in list(message, "parts").iter_mut().filter_map(Value::as_object_mut) {
            part_body(part);
        }
    }
    document
}

fn list<'a>(value: &'a mut Value, key: &str) -> &'a mut [Value] {
    value.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn id_of(map: &Object) -> String {
    map.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Redacts the text under `key`, if there is one and it says something.
fn text(map: &mut Object, key: &str, kind: &str, id: &str) {
    if let Some(Value::String(text)) = map.get_mut(key)
        && !text.trim().is_empty()
    {
        *text = format!("[redacted:{kind}:{id}]");
    }
}

/// Redacts the object under `key`, if there is one and it holds something.
fn data(map: &mut Object, key: &str, kind: &str, id: &str) {
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

fn object<'a>(map: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

fn diffs(map: &mut Object, kind: &str) {
    let Some(list) = map.get_mut("diffs").and_then(Value::as_array_mut) else {
        return;
    };
    for (index, diff) in list.iter_mut().enumerate() {
        let Some(diff) = diff.as_object_mut() else {
            continue;
        };
        for key in ["file", "patch", "before", "after"] {
            text(diff, key, &format!("{kind}-{key}"), &index.to_string());
        }
    }
}

fn session(info: &mut Object) {
    let id = id_of(info);
    text(info, "title", "session-title", &id);
    text(info, "directory", "session-directory", &id);
    if let Some(summary) = object(info, "summary") {
        diffs(summary, "session-diff");
    }
    if let Some(revert) = object(info, "revert") {
        text(revert, "snapshot", "revert-snapshot", &id);
        text(revert, "diff", "revert-diff", &id);
    }
}

fn message_info(info: &mut Object) {
    let id = id_of(info);
    if info.get("role").and_then(Value::as_str) == Some("user") {
        text(info, "system", "system", &id);
        if let Some(summary) = object(info, "summary") {
            text(summary, "title", "summary-title", &id);
            text(summary, "body", "summary-body", &id);
            diffs(summary, "message-diff");
        }
        return;
    }
    if let Some(path) = object(info, "path") {
        path.retain(|key, _| key == "cwd" || key == "root");
        text(path, "cwd", "cwd", &id);
        text(path, "root", "root", &id);
    }
}

fn part_body(part: &mut Object) {
    let id = id_of(part);
    match part.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => {
            text(part, "text", "text", &id);
            data(part, "metadata", "text-metadata", &id);
        }
        "reasoning" => {
            text(part, "text", "reasoning", &id);
            data(part, "metadata", "reasoning-metadata", &id);
        }
        "file" => file(part),
        "subtask" => {
            text(part, "prompt", "subtask-prompt", &id);
            text(part, "description", "subtask-description", &id);
            text(part, "command", "subtask-command", &id);
        }
        "tool" => tool(part, &id),
        "patch" => {
            text(part, "hash", "patch", &id);
            let files = part.get_mut("files").and_then(Value::as_array_mut);
            for (index, file) in files.into_iter().flatten().enumerate() {
                if file.as_str().is_some_and(|file| !file.trim().is_empty()) {
                    *file = Value::String(format!("[redacted:patch-file:{id}-{index}]"));
                }
            }
        }
        "snapshot" | "step-start" | "step-finish" => text(part, "snapshot", "snapshot", &id),
        "agent" => {
            if let Some(source) = object(part, "source") {
                text(source, "value", "agent-source", &id);
            }
        }
        "compaction" | "retry" => {}
        _ => part.retain(|key, _| ["id", "sessionID", "messageID", "type"].contains(&key.as_str())),
    }
}

/// A file part or an attachment.
fn file(part: &mut Object) {
    let id = id_of(part);
    text(part, "url", "file-url", &id);
    text(part, "filename", "file-name", &id);
    let Some(source) = object(part, "source") else {
        return;
    };
    match source.get("type").and_then(Value::as_str) {
        Some("symbol") => {
            text(source, "path", "file-path", &id);
            text(source, "name", "file-symbol", &id);
        }
        Some("resource") => {
            text(source, "clientName", "file-client", &id);
            text(source, "uri", "file-uri", &id);
        }
        _ => text(source, "path", "file-path", &id),
    }
    if let Some(inner) = object(source, "text") {
        text(inner, "value", "file-text", &id);
    }
}

fn tool(part: &mut Object, id: &str) {
    data(part, "metadata", "tool-metadata", id);
    let Some(state) = object(part, "state") else {
        return;
    };
    data(state, "input", "tool-input", id);
    data(state, "metadata", "tool-state-metadata", id);
    text(state, "raw", "tool-raw", id);
    text(state, "title", "tool-title", id);
    text(state, "output", "tool-output", id);
    let attachments = state.get_mut("attachments").and_then(Value::as_array_mut);
    for attachment in attachments.into_iter().flatten() {
        if let Some(attachment) = attachment.as_object_mut() {
            file(attachment);
        }
    }
}
