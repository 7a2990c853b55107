//! Projects, to-do lists, diffs, rules and requests.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shape::{self, ShapeError};
use crate::model::{FileDiff, Project, Request, RequestBody, Todo, WorktreeNews};
use crate::permission::Rule;

/// What OpenCode shows of a project; all else stays here.
const PROJECT: [&str; 8] =
    ["id", "worktree", "vcs", "name", "icon", "commands", "time", "sandboxes"];

/// Returns a project as OpenCode shows it: no aliases, no rules, nothing of the worktrees made for it.
#[must_use]
pub fn project_info(project: &Project) -> Value {
    let mut map = shape::fields(project);
    map.retain(|key, _| PROJECT.contains(&key.as_str()));
    Value::Object(map)
}

/// Returns the properties of `worktree.ready` and `worktree.failed`; the directory goes beside them.
#[must_use]
pub fn worktree_info(news: &WorktreeNews) -> Value {
    Value::Object(shape::fields(&news.outcome))
}

/// Reads a project in OpenCode's form. By what it is found, which directories were made for it and
/// that it was removed is for its own ledger to say, never for a document.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an id that is none.
pub fn parse_project(value: Value) -> Result<Project, ShapeError> {
    let mut map = shape::object("project", value)?;
    for own in ["aliases", "worktrees", "removed", "importedPermission", "importedApprovals"] {
        map.remove(own);
    }
    shape::read("project", Value::Object(map))
}

/// Returns a to-do list as OpenCode shows it.
#[must_use]
pub fn todos(todos: &[Todo]) -> Value {
    todos.iter().map(|todo| Value::Object(shape::fields(todo))).collect()
}

/// Reads a to-do list.
///
/// # Errors
///
/// Anything that is not a list of to-dos.
pub fn parse_todos(value: Value) -> Result<Vec<Todo>, ShapeError> {
    list("to-do list", value)
}

/// Returns diffs as OpenCode shows them.
#[must_use]
pub fn file_diffs(diffs: &[FileDiff]) -> Value {
    diffs.iter().map(|diff| Value::Object(shape::fields(diff))).collect()
}

/// Reads diffs, those of OpenCode 1.2.10 with `before` and `after` too.
///
/// # Errors
///
/// Anything that is not a list of diffs.
pub fn parse_file_diffs(value: Value) -> Result<Vec<FileDiff>, ShapeError> {
    list("diff", value)
}

/// Reads a list of permission rules.
///
/// # Errors
///
/// Anything that is not a list of rules.
pub fn parse_rules(value: Value) -> Result<Vec<Rule>, ShapeError> {
    list("list of rules", value)
}

fn list<T: DeserializeOwned>(what: &'static str, value: Value) -> Result<Vec<T>, ShapeError> {
    if value.is_array() {
        return shape::read(what, value);
    }
    Err(ShapeError::new(what, "it is not a list"))
}

/// Returns a permission request or a question as OpenCode lists it while it is open.
#[must_use]
pub fn request_info(request: &Request) -> Value {
    let ask = match &request.body {
        RequestBody::Permission(ask) => shape::fields(ask),
        RequestBody::Question(ask) => shape::fields(ask),
    };
    let mut map = serde_json::Map::new();
    map.insert("id".to_owned(), Value::from(request.id.as_str()));
    map.insert("sessionID".to_owned(), Value::from(request.session.as_str()));
    map.extend(ask);
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_project_is_shown_without_what_is_only_ours() -> Result<(), ShapeError> {
        let value = json!({ "id": "p", "worktree": "/w", "vcs": "git", "time": { "created": 1, "updated": 2 },
                            "sandboxes": ["/w2"], "icon": { "color": "red" } });
        let mut project = parse_project(value.clone())?;
        let kind = crate::model::AliasKind::Directory;
        project.aliases.push(crate::model::Alias { kind, value: "/w".to_owned() });
        project.permission = Some(Vec::new());
        project.removed = Some(3.into());
        let (name, directory) = ("feat".to_owned(), "/w3".to_owned());
        let made = json!({ "name": name, "directory": directory });
        project.worktrees = shape::read("worktrees", json!([made]))?;
        assert_eq!(project_info(&project), value);
        Ok(())
    }

    #[test]
    fn no_document_names_directories_that_may_be_removed() -> Result<(), ShapeError> {
        let value = json!({ "id": "p", "worktree": "/w", "time": { "created": 1, "updated": 2 },
            "sandboxes": [], "removed": 5, "worktrees": [{ "name": "x", "directory": "/home" }] });
        let project = parse_project(value)?;
        assert!(project.worktrees.is_empty() && project.removed.is_none());
        Ok(())
    }

    #[test]
    fn a_request_is_shown_as_the_clients_list_it() -> Result<(), serde_json::Error> {
        // Recorded from the real program.
        let shown = json!({ "id": "per_1de286c2c001909644iBoMmdit", "sessionID": "ses_e21d7e96cffeUWwmatp71xELYW",
            "permission": "bash", "patterns": ["touch asked.txt"], "metadata": { "command": "touch asked.txt" },
            "always": ["touch *"], "tool": { "messageID": "msg_1de286b92001AdZaz3vIC2UAQR", "callID": "call_178_0" } });
        let mut body = shown.clone();
        body["kind"] = json!("permission");
        let request: Request = serde_json::from_value(json!({
            "id": shown["id"], "sessionID": shown["sessionID"], "body": body, "state": { "is": "pending" } }))?;
        assert_eq!(request_info(&request), shown);
        Ok(())
    }

    #[test]
    fn lists_must_be_lists() {
        assert!(parse_todos(json!({})).is_err());
        assert!(parse_rules(json!("x")).is_err());
        assert!(
            parse_file_diffs(
                json!([{ "file": "a", "before": "", "after": "b", "additions": 1, "deletions": 0 }])
            )
            .is_ok()
        );
    }
}
