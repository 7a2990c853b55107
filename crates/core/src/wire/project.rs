//! Projects, to-do lists, diffs, rules and requests.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::parsing::{self, ShapeError};
use crate::model::{
    Project, RequestBody, SessionFileDiff, Todo, UserRequest, WorktreeCreationEvent,
};

/// What OpenCode shows of a project; all else stays here.
const PROJECT_FIELDS: [&str; 8] =
    ["id", "worktree", "vcs", "name", "icon", "commands", "time", "sandboxes"];

/// What only our own database holds of a project.
const OWN_FIELDS: [&str; 7] = [
    "aliases",
    "recordedRoots",
    "joinedClones",
    "worktrees",
    "removed",
    "importedPermission",
    "importedApprovals",
];

/// Returns a project as OpenCode shows it: no aliases, no rules, nothing of the worktrees made for it.
#[must_use]
pub fn project_info(project: &Project) -> Value {
    let mut map = parsing::to_object(project);
    map.retain(|key, _| PROJECT_FIELDS.contains(&key.as_str()));
    Value::Object(map)
}

/// Returns the properties of `worktree.ready` and `worktree.failed`; the directory is a separate field of the event.
#[must_use]
pub fn worktree_info(event: &WorktreeCreationEvent) -> Value {
    Value::Object(parsing::to_object(&event.outcome))
}

/// Reads a project in OpenCode's form. By what it is found, which directories were made for it and
/// that it was removed only its own database says, never a document.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an invalid id.
pub fn parse_project(value: Value) -> Result<Project, ShapeError> {
    let mut map = parsing::expect_object("project", value)?;
    for own in OWN_FIELDS {
        map.remove(own);
    }
    parsing::parse_value("project", Value::Object(map))
}

/// Returns a to-do list as OpenCode shows it.
#[must_use]
pub fn todos_info(todos: &[Todo]) -> Value {
    todos.iter().map(|todo| Value::Object(parsing::to_object(todo))).collect()
}

/// Returns diffs as OpenCode shows them.
#[must_use]
pub fn file_diffs_info(diffs: &[SessionFileDiff]) -> Value {
    diffs.iter().map(|diff| Value::Object(parsing::to_object(diff))).collect()
}

/// Reads diffs, those of OpenCode 1.2.10 with `before` and `after` too.
///
/// # Errors
///
/// Anything that is not a list of diffs.
pub fn parse_file_diffs(value: Value) -> Result<Vec<SessionFileDiff>, ShapeError> {
    parse_list("diff", value)
}

fn parse_list<T: DeserializeOwned>(what: &'static str, value: Value) -> Result<Vec<T>, ShapeError> {
    if value.is_array() {
        return parsing::parse_value(what, value);
    }
    Err(ShapeError::new(what, "it is not a list"))
}

/// Returns a permission request or a question as OpenCode lists it while it is open.
#[must_use]
pub fn request_info(request: &UserRequest) -> Value {
    let ask = match &request.body {
        RequestBody::Permission(ask) => parsing::to_object(ask),
        RequestBody::Question(ask) => parsing::to_object(ask),
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
    fn project_info_omits_private_fields() -> Result<(), ShapeError> {
        let value = json!({ "id": "p", "worktree": "/w", "vcs": "git", "time": { "created": 1, "updated": 2 },
                            "sandboxes": ["/w2"], "icon": { "color": "red" } });
        let mut project = parse_project(value.clone())?;
        let kind = crate::model::ProjectAliasKind::Directory;
        project.aliases.push(crate::model::ProjectAlias { kind, value: "/w".to_owned() });
        project.permission = Some(Vec::new());
        project.removed = Some(3.into());
        let (name, directory) = ("feat".to_owned(), "/w3".to_owned());
        let made = json!({ "name": name, "directory": directory });
        project.worktrees = parsing::parse_value("worktrees", json!([made]))?;
        assert_eq!(project_info(&project), value);
        Ok(())
    }

    #[test]
    fn parsed_project_has_no_removable_worktrees() -> Result<(), ShapeError> {
        let value = json!({ "id": "p", "worktree": "/w", "time": { "created": 1, "updated": 2 },
            "sandboxes": [], "removed": 5, "worktrees": [{ "name": "x", "directory": "/home" }] });
        let project = parse_project(value)?;
        assert!(project.worktrees.is_empty() && project.removed.is_none());
        Ok(())
    }

    #[test]
    fn request_info_matches_recorded_opencode_json() -> Result<(), serde_json::Error> {
        // Recorded from the real program.
        let shown = json!({ "id": "per_1de286c2c001909644iBoMmdit", "sessionID": "ses_e21d7e96cffeUWwmatp71xELYW",
            "permission": "bash", "patterns": ["touch asked.txt"], "metadata": { "command": "touch asked.txt" },
            "always": ["touch *"], "tool": { "messageID": "msg_1de286b92001AdZaz3vIC2UAQR", "callID": "call_178_0" } });
        let mut body = shown.clone();
        body["kind"] = json!("permission");
        let request: UserRequest = serde_json::from_value(json!({
            "id": shown["id"], "sessionID": shown["sessionID"], "body": body, "state": { "is": "pending" } }))?;
        assert_eq!(request_info(&request), shown);
        Ok(())
    }

    #[test]
    fn parse_list_rejects_non_lists() {
        assert!(parse_file_diffs(json!({})).is_err());
        assert!(parse_file_diffs(json!("x")).is_err());
        assert!(
            parse_file_diffs(
                json!([{ "file": "a", "before": "", "after": "b", "additions": 1, "deletions": 0 }])
            )
            .is_ok()
        );
    }
}
