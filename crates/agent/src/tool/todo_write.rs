//! The tool `todowrite`: replaces the to-do list of the session.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::model::{ExtraFields, Todo};

use super::accessed_path::permission_ask;
use super::input::ToolInput;
use super::schema::{array, object, string, tool_schema};
use super::{Tool, ToolError, ToolHost, ToolReply, ToolScope};
use crate::model::ToolSchema;

/// The name of the tool.
const NAME: &str = "todowrite";

const DESCRIPTION: &str = "Replaces the to-do list that the user sees next to the conversation.\n\n\
    - Use it for work of three or more steps, and when the user gives several tasks; not for a \
    single simple step.\n\
    - Send the whole list every time. Have one item in_progress at a time, and mark an item as \
    completed as soon as it is done, not before.";

/// Replaces the to-do list.
pub struct TodoWriteTool;

impl Tool for TodoWriteTool {
    fn schema(&self) -> ToolSchema {
        let item = object(
            &json!({
                "content": string("What is to be done, in a few words"),
                "status": string("pending, in_progress, completed or cancelled"),
                "priority": string("high, medium or low"),
            }),
            &["content", "status", "priority"],
        );
        let properties = json!({ "todos": array(&item, "The whole list") });
        tool_schema(NAME, DESCRIPTION, &properties, &["todos"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let todo = |item: ToolInput<'_>| {
            Ok(Todo {
                content: item.string("content")?.to_owned(),
                status: item.string("status")?.to_owned(),
                priority: item.string("priority")?.to_owned(),
                extra: ExtraFields::new(),
            })
        };
        let items = ToolInput::new(NAME, input)?.objects("todos")?;
        let todos: Vec<Todo> = items.into_iter().map(todo).collect::<Result<_, ToolError>>()?;
        let all = || vec!["*".to_owned()];
        host.ask(permission_ask(NAME, all(), all(), json!({})))?;
        let steps = host.engine().turns().steps();
        steps
            .set_todos(&host.context(), host.turn(), todos.clone())
            .map_err(|error| ToolError::failed(format!("The list could not be stored: {error}")))?;
        let is_open = |todo: &&Todo| !["completed", "cancelled"].contains(&todo.status.as_str());
        let open = todos.iter().filter(is_open).count();
        let list = json!(todos);
        let output = serde_json::to_string_pretty(&list)
            .map_err(|error| ToolError::failed(error.to_string()))?;
        let metadata = json!({ "todos": list });
        Ok(ToolReply {
            title: format!("{open} todos"),
            output,
            metadata: metadata.as_object().cloned().unwrap_or_default(),
            attachments: Vec::new(),
        })
    }
}
