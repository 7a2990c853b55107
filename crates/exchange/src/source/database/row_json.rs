//! Rows of OpenCode's tables in OpenCode's JSON shapes, as its own program shows them.

use serde_json::{Map, Value, json};

use super::ForeignRow;

/// The columns of the session table that are read here or belong to the program alone.
pub(super) const SESSION_COLUMNS: &[&str] = &[
    "id",
    "project_id",
    "workspace_id",
    "parent_id",
    "slug",
    "directory",
    "path",
    "title",
    "version",
    "share_url",
    "summary_additions",
    "summary_deletions",
    "summary_files",
    "summary_diffs",
    "metadata",
    "cost",
    "tokens_input",
    "tokens_output",
    "tokens_reasoning",
    "tokens_cache_read",
    "tokens_cache_write",
    "revert",
    "permission",
    "agent",
    "model",
    "time_created",
    "time_updated",
    "time_compacting",
    "time_archived",
];

/// A project; the texts say what had to be left out.
pub(super) fn project_json(row: &ForeignRow) -> (Map<String, Value>, Vec<String>) {
    let mut body = Map::new();
    let mut notes = Vec::new();
    row.put_text("worktree", "worktree", &mut body);
    for column in ["vcs", "name"] {
        if let Some(text) = row.nonempty_text(column) {
            body.insert(column.to_owned(), Value::String(text));
        }
    }
    let mut icon = Map::new();
    row.put_text("icon_url", "url", &mut icon);
    row.put_text("icon_url_override", "override", &mut icon);
    row.put_text("icon_color", "color", &mut icon);
    if !icon.is_empty() {
        body.insert("icon".to_owned(), Value::Object(icon));
    }
    put_json(row, "commands", "commands", &mut body, &mut notes);
    put_json(row, "sandboxes", "sandboxes", &mut body, &mut notes);
    let mut time = Map::new();
    row.put_number("time_created", "created", &mut time);
    row.put_number("time_updated", "updated", &mut time);
    row.put_number("time_initialized", "initialized", &mut time);
    body.insert("time".to_owned(), Value::Object(time));
    (body, notes)
}

/// A session; the texts say what had to be left out.
pub(super) fn session_json(row: &ForeignRow) -> (Value, Vec<String>) {
    let mut body = Map::new();
    let mut notes = Vec::new();
    for (column, key) in [
        ("slug", "slug"),
        ("directory", "directory"),
        ("path", "path"),
        ("title", "title"),
        ("version", "version"),
    ] {
        row.put_text(column, key, &mut body);
    }
    for (column, key) in
        [("workspace_id", "workspaceID"), ("parent_id", "parentID"), ("agent", "agent")]
    {
        if let Some(text) = row.nonempty_text(column) {
            body.insert(key.to_owned(), Value::String(text));
        }
    }
    if let Some(url) = row.nonempty_text("share_url") {
        body.insert("share".to_owned(), json!({ "url": url }));
    }
    put_summary(row, &mut body, &mut notes);
    for column in ["metadata", "revert", "permission", "model"] {
        put_json(row, column, column, &mut body, &mut notes);
    }
    put_figures(row, &mut body);
    let mut time = Map::new();
    row.put_number("time_created", "created", &mut time);
    row.put_number("time_updated", "updated", &mut time);
    row.put_number("time_compacting", "compacting", &mut time);
    row.put_number("time_archived", "archived", &mut time);
    body.insert("time".to_owned(), Value::Object(time));
    (Value::Object(body), notes)
}

/// The summary is there if any of its counters is.
fn put_summary(row: &ForeignRow, body: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let mut summary = Map::new();
    for (column, key) in [
        ("summary_additions", "additions"),
        ("summary_deletions", "deletions"),
        ("summary_files", "files"),
    ] {
        row.put_number(column, key, &mut summary);
    }
    if summary.is_empty() {
        return;
    }
    for key in ["additions", "deletions", "files"] {
        summary.entry(key).or_insert_with(|| Value::from(0));
    }
    put_json(row, "summary_diffs", "diffs", &mut summary, notes);
    body.insert("summary".to_owned(), Value::Object(summary));
}

fn put_figures(row: &ForeignRow, body: &mut Map<String, Value>) {
    row.put_number("cost", "cost", body);
    let mut tokens = Map::new();
    let mut cache = Map::new();
    row.put_number("tokens_input", "input", &mut tokens);
    row.put_number("tokens_output", "output", &mut tokens);
    row.put_number("tokens_reasoning", "reasoning", &mut tokens);
    row.put_number("tokens_cache_read", "read", &mut cache);
    row.put_number("tokens_cache_write", "write", &mut cache);
    if tokens.len() == 3 && cache.len() == 2 {
        tokens.insert("cache".to_owned(), Value::Object(cache));
        body.insert("tokens".to_owned(), Value::Object(tokens));
    }
}

fn put_json(
    row: &ForeignRow,
    column: &str,
    key: &str,
    body: &mut Map<String, Value>,
    notes: &mut Vec<String>,
) {
    match row.json(column) {
        Ok(None | Some(Value::Null)) => {}
        Ok(Some(value)) => {
            body.insert(key.to_owned(), value);
        }
        Err(reason) => notes.push(format!("imported without {key}: {reason}")),
    }
}

/// An approval of today's second runner: it saves what was allowed.
pub(super) fn approval_json(row: &ForeignRow) -> Value {
    let mut body = Map::new();
    row.put_text("action", "permission", &mut body);
    row.put_text("resource", "pattern", &mut body);
    body.insert("action".to_owned(), Value::from("allow"));
    Value::Object(body)
}

/// One entry of a to-do list.
pub(super) fn todo_json(row: &ForeignRow) -> Value {
    let mut body = Map::new();
    for column in ["content", "status", "priority"] {
        row.put_text(column, column, &mut body);
    }
    Value::Object(body)
}

/// A share with its secret.
pub(super) fn share_json(row: &ForeignRow) -> Value {
    let mut body = Map::new();
    for column in ["id", "secret", "url"] {
        row.put_text(column, column, &mut body);
    }
    Value::Object(body)
}
