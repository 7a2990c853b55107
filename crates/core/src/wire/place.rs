//! Projects, to-do lists, diffs, rules and requests.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shape::{self, ShapeError};
use crate::model::{FileDiff, Project, Request, RequestBody, Todo};
use crate::permission::Rule;

/// Returns a project as OpenCode shows it; the aliases stay here.
#[must_use]
pub fn project_info(project: &Project) -> Value {
    let mut map = shape::fields(project);
    map.remove("aliases");
    Value::Object(map)
}

/// Reads a project in OpenCode's form.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an id that is none.
pub fn parse_project(value: Value) -> Result<Project, ShapeError> {
    let mut map = shape::object("project", value)?;
    map.remove("aliases");
    shape::read("project", Value::Object(map))
}

/// Returns a to-do list as OpenCode shows it.
#[must_use]
pub fn todos(todos: &[Todo]) -> Value {
    todos
        .iter()
        .map(|todo| Value::Object(shape::fields(todo)))
        .collect()
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
    diffs
        .iter()
        .map(|diff| Value::Object(shape::fields(diff)))
        .collect()
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
    map.insert(
        "sessionID".to_owned(),
        Value::from(request.session.as_str()),
    );
    map.extend(ask);
    Value::Object(map)
}
