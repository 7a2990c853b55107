//! Projects, rules, to-dos, shares and diffs.

use serde_json::{Map, Number, Value, json};
use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, ProjectAlias, ProjectAliasKind, SessionFileDiff, Todo};
use turnstone_core::permission::PermissionRule;
use turnstone_core::wire;
use turnstone_store::ShareRecord;

use super::json_field::{ConversionError, into_object, map_own_id, set_if_missing};
use crate::import_report::SkippedRecord;

/// A project; its directories become aliases, by which it is found again (R31).
pub(crate) fn convert_project(id: &str, body: Value) -> Result<Project, ConversionError> {
    let mut map = into_object(body, &["id"])?;
    let project: ProjectId = map_own_id(id, &mut map)?;
    let further = map.remove("directories");
    complete_project(&mut map);
    map.insert("id".to_owned(), Value::String(project.to_string()));
    let mut project = wire::parse_project(Value::Object(map)).map_err(|error| error.reason)?;
    let further = further.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut directories = vec![project.worktree.clone()];
    directories.extend(project.sandboxes.iter().cloned());
    directories.extend(further.filter_map(|dir| dir.as_str().map(str::to_owned)));
    project.aliases = directory_aliases(directories);
    Ok(project)
}

/// A project that only its sessions speak of.
pub(crate) fn project_from_worktree(id: &str, worktree: &str) -> Result<Project, ConversionError> {
    convert_project(id, json!({ "worktree": worktree }))
}

/// What a project of today has and an older one may lack; optional fields of a wrong type go.
fn complete_project(map: &mut Map<String, Value>) {
    set_if_missing(map, "worktree", Value::from("/"));
    if !map.get("sandboxes").is_some_and(is_string_array) {
        map.insert("sandboxes".to_owned(), json!([]));
    }
    for key in ["vcs", "name"] {
        if map.get(key).is_some_and(|value| !value.is_string()) {
            map.remove(key);
        }
    }
    let mut time = match map.remove("time") {
        Some(Value::Object(time)) => time,
        _ => Map::new(),
    };
    time.retain(|_, value| value.is_number());
    let known = time.get("updated").or_else(|| time.get("created"));
    let known = known.cloned().unwrap_or_else(|| Value::Number(Number::from(0)));
    set_if_missing(&mut time, "created", known.clone());
    set_if_missing(&mut time, "updated", known);
    map.insert("time".to_owned(), Value::Object(time));
}

fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

/// The directories that can tell projects apart: all but the root of the file system.
fn directory_aliases(directories: Vec<String>) -> Vec<ProjectAlias> {
    let mut aliases = Vec::new();
    for value in directories.into_iter().filter(|dir| dir.len() > 1) {
        let alias = ProjectAlias { kind: ProjectAliasKind::Directory, value };
        if !aliases.contains(&alias) {
            aliases.push(alias);
        }
    }
    aliases
}

/// A rule.
pub(crate) fn convert_rule(body: Value) -> Result<PermissionRule, ConversionError> {
    serde_json::from_value(body).map_err(|error| format!("not a rule: {error}"))
}

/// A to-do list; invalid entries are omitted and named with their position in the list.
pub(crate) fn convert_todos(
    session: &str,
    body: Value,
) -> Result<(Vec<Todo>, Vec<SkippedRecord>), ConversionError> {
    let Value::Array(list) = body else {
        return Err("the to-do list is not a list".to_owned());
    };
    let mut todos = Vec::new();
    let mut skipped = Vec::new();
    for (index, entry) in list.into_iter().enumerate() {
        match serde_json::from_value(entry) {
            Ok(todo) => todos.push(todo),
            Err(error) => skipped.push(SkippedRecord {
                id: format!("{session}#{index}"),
                reason: format!("not a to-do: {error}"),
            }),
        }
    }
    Ok((todos, skipped))
}

/// A share with its secret, so that it can still be ended.
pub(crate) fn convert_share(body: Value) -> Result<ShareRecord, ConversionError> {
    let map = into_object(body, &[])?;
    let text = |key: &str| match map.get(key).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("the share has no {key}")),
    };
    Ok(ShareRecord { id: text("id")?, secret: text("secret")?, url: text("url")? })
}

/// A stored diff.
pub(crate) fn convert_diff(body: Value) -> Result<Vec<SessionFileDiff>, ConversionError> {
    wire::parse_file_diffs(complete_line_counts(body)).map_err(|error| error.reason)
}

/// Completes diffs whose line counts are missing.
pub(super) fn complete_line_counts(mut diffs: Value) -> Value {
    for diff in diffs.as_array_mut().into_iter().flatten() {
        if let Some(map) = diff.as_object_mut() {
            set_if_missing(map, "additions", json!(0));
            set_if_missing(map, "deletions", json!(0));
        }
    }
    diffs
}
