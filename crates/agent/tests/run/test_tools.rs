//! Small tools whose behaviour a script decides.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_agent::model::ToolSchema;
use turnstone_agent::tool::{SubagentTask, Tool, ToolError, ToolHost, ToolReply, ToolScope};
use turnstone_core::model::{ExtraFields, PermissionAsk, Question};
use turnstone_engine::{FileWriteRequest, WritePrecondition};

pub(crate) fn test_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(WriteTool),
        Arc::new(AskTool),
        Arc::new(QuestionTool),
        Arc::new(HangTool),
        Arc::new(PanicTool),
        Arc::new(TaskTool),
    ]
}

fn schema(name: &str) -> ToolSchema {
    let parameters = json!({"type": "object"});
    ToolSchema { name: name.to_owned(), description: name.to_owned(), parameters }
}

fn text<'v>(input: &'v Value, key: &str) -> &'v str {
    input.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn ask(permission: &str, pattern: &str) -> PermissionAsk {
    PermissionAsk {
        permission: permission.to_owned(),
        patterns: vec![pattern.to_owned()],
        metadata: ExtraFields::new(),
        always: vec![pattern.to_owned()],
        tool: None,
        extra: ExtraFields::new(),
    }
}

/// Writes `content` to `file`, a name in the directory of the session.
struct WriteTool;

impl Tool for WriteTool {
    fn schema(&self) -> ToolSchema {
        schema("put")
    }

    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
        Some(vec![scope.directory.join(text(input, "file"))])
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let path = host.scope().directory.join(text(input, "file"));
        let bytes = Some(text(input, "content").as_bytes().to_vec());
        let request = FileWriteRequest { path, expected: WritePrecondition::Absent, bytes };
        let calls = host.engine().tool_calls();
        let written = calls.write_file(&host.context(), host.turn(), Some(host.part()), &request);
        written.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(ToolReply { output: "written".to_owned(), ..ToolReply::default() })
    }
}

/// Asks for permission, then answers.
struct AskTool;

impl Tool for AskTool {
    fn schema(&self) -> ToolSchema {
        schema("guarded")
    }

    fn written_paths(&self, _: &ToolScope, _: &Value) -> Option<Vec<PathBuf>> {
        None
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        host.ask(ask("guarded", text(input, "what")))?;
        host.show(Some("going".to_owned()), Map::new());
        Ok(ToolReply { output: format!("did {}", text(input, "what")), ..ToolReply::default() })
    }
}

/// Asks a person one question.
struct QuestionTool;

impl Tool for QuestionTool {
    fn schema(&self) -> ToolSchema {
        schema("question")
    }

    fn written_paths(&self, _: &ToolScope, _: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, _: &Value) -> Result<ToolReply, ToolError> {
        let question = json!({"question": "Which?", "header": "Pick", "options": []});
        let question: Question = serde_json::from_value(question).expect("a question");
        let answers = host.ask_questions(vec![question])?;
        Ok(ToolReply { output: format!("{answers:?}"), ..ToolReply::default() })
    }
}

/// Runs until it is aborted.
struct HangTool;

impl Tool for HangTool {
    fn schema(&self) -> ToolSchema {
        schema("hang")
    }

    fn written_paths(&self, _: &ToolScope, _: &Value) -> Option<Vec<PathBuf>> {
        None
    }

    fn run(&self, host: &dyn ToolHost, _: &Value) -> Result<ToolReply, ToolError> {
        let mut shown = Map::new();
        shown.insert("output".to_owned(), json!("so far"));
        host.show(None, shown);
        assert!(host.abort().wait(Duration::from_secs(300)), "the test aborts it");
        Err(ToolError::Aborted)
    }
}

struct PanicTool;

impl Tool for PanicTool {
    fn schema(&self) -> ToolSchema {
        schema("broken")
    }

    fn written_paths(&self, _: &ToolScope, _: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, _: &dyn ToolHost, _: &Value) -> Result<ToolReply, ToolError> {
        panic!("a defect of a tool")
    }
}

/// Calls a subagent.
struct TaskTool;

impl Tool for TaskTool {
    fn schema(&self) -> ToolSchema {
        schema("task")
    }

    fn written_paths(&self, _: &ToolScope, _: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let done = host.run_subagent(SubagentTask {
            agent: text(input, "agent").to_owned(),
            description: "look".to_owned(),
            prompt: text(input, "prompt").to_owned(),
            session: None,
        })?;
        Ok(ToolReply { output: done.text, ..ToolReply::default() })
    }
}
