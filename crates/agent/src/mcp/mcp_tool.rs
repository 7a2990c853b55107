//! A tool of a server, as models call it.

use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Map, Value, json};
use turnstone_core::permission::AskPolicy;
use turnstone_engine::{EngineError, TrackedCall};
use turnstone_mcp::{
    CallControl, CallProgress, ServerTool, ToolResultFile, ToolServer, ToolServerError,
    ToolServerResult, clean_text,
};

use super::tool_pins::{PinState, ToolPin, ToolPins};
use crate::model::ToolSchema;
use crate::tool::{
    Tool, ToolAttachment, ToolError, ToolHost, ToolReply, ToolScope, into_fields, permission_ask,
};

/// The longest error of a tool that a model reads.
const MAX_ERROR_BYTES: usize = 50 << 10;
/// The most of a structured result that is stored in addition to its text.
const MAX_STRUCTURED_BYTES: usize = 32 << 10;
/// How often clients see progress.
const PROGRESS_INTERVAL_MILLIS: i64 = 200;

/// A tool of a server.
pub(super) struct McpTool {
    pub(super) name: String,
    pub(super) server: ToolServer,
    /// The tool as the model sees it.
    pub(super) tool: ServerTool,
    pub(super) pin: ToolPin,
    pub(super) pins: ToolPins,
}

impl McpTool {
    /// Refuses the call of a tool that has become something else since the model saw it.
    fn check_current(&self) -> Result<(), ToolError> {
        let tools = self.server.tools();
        let current = tools.iter().find(|it| it.name == self.tool.name);
        if current == Some(&self.tool) {
            return Ok(());
        }
        let why = if current.is_some() { "has changed its definition" } else { "no longer exists" };
        Err(ToolError::failed(format!(
            "The tool {} of the server {} {why} since it was offered, so it was not called. Look at your tools again.",
            self.tool.name,
            self.server.name()
        )))
    }

    /// Asks for the call: unless a person has allowed the tool, and always if it is not what was allowed.
    fn ask(&self, host: &dyn ToolHost, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        let failed = |error: super::ToolPinError| ToolError::failed(error.to_string());
        let state = self.pins.check(&self.pin).map_err(failed)?;
        let mut metadata = self.metadata();
        metadata.insert("input".to_owned(), json!(arguments));
        let policy = match &state {
            PinState::Known => AskPolicy::UnlessPersonAllows,
            PinState::New => {
                metadata.insert("description".to_owned(), json!(self.tool.description));
                AskPolicy::UnlessPersonAllows
            }
            PinState::Changed(what) => {
                let what = what.join(", ");
                let warning = format!("{} has changed since it was allowed: {what}", self.name);
                host.show(Some(warning.clone()), self.metadata());
                metadata.insert("description".to_owned(), json!(self.tool.description));
                metadata.insert("changed".to_owned(), json!(what));
                metadata.insert("warning".to_owned(), json!(warning));
                AskPolicy::Always
            }
        };
        let anything = || vec!["*".to_owned()];
        let ask = permission_ask(&self.name, anything(), anything(), Value::Object(metadata));
        host.ask(ask.with_policy(policy))?;
        match state {
            PinState::Known => Ok(()),
            PinState::New | PinState::Changed(_) => self.pins.add(self.pin.clone()).map_err(failed),
        }
    }

    fn metadata(&self) -> Map<String, Value> {
        into_fields(json!({ "server": self.server.name(), "tool": self.tool.name }))
    }

    /// Opens a window for whatever the server writes, unless it says that this tool writes nothing.
    fn open_window(&self, host: &dyn ToolHost) -> Result<Option<TrackedCall>, ToolError> {
        if self.tool.is_read_only {
            return Ok(None);
        }
        let calls = host.engine().tool_calls();
        let opened = calls.open_window(&host.context(), host.turn(), Some(host.part()));
        opened.map(Some).map_err(|error| engine_error(&error))
    }

    fn call(
        &self,
        host: &dyn ToolHost,
        arguments: Map<String, Value>,
    ) -> Result<ToolServerResult, ToolServerError> {
        let control = CallControl::default();
        let cancelling = control.clone();
        host.abort().on_request(move || cancelling.cancel());
        let shown_at = Mutex::new(0);
        let on_progress = |progress: CallProgress| {
            let now = host.context().now.0;
            let mut shown_at = shown_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if now - *shown_at >= PROGRESS_INTERVAL_MILLIS {
                *shown_at = now;
                host.show(progress.message.clone(), self.progress_metadata(&progress));
            }
        };
        self.server.call(&self.tool.name, arguments, &control, &on_progress)
    }

    fn progress_metadata(&self, progress: &CallProgress) -> Map<String, Value> {
        let mut metadata = self.metadata();
        let CallProgress { done, total, message } = progress;
        let shown = json!({ "progress": done, "total": total, "message": message });
        metadata.insert("progress".to_owned(), shown);
        metadata
    }

    fn reply(&self, result: ToolServerResult) -> Result<ToolReply, ToolError> {
        let ToolServerResult { text, files, structured, is_error } = result;
        let mut metadata = self.metadata();
        if let Some(structured) = structured
            && structured.to_string().len() <= MAX_STRUCTURED_BYTES
        {
            metadata.insert("structuredContent".to_owned(), structured);
        }
        if is_error {
            let text = if text.is_empty() {
                "The tool failed without saying why.".to_owned()
            } else {
                text
            };
            return Err(ToolError::Failed {
                message: clean_text(&text, MAX_ERROR_BYTES),
                metadata,
            });
        }
        let output = if text.is_empty() { "(no output)".to_owned() } else { text };
        let attachments = files.into_iter().map(attachment).collect();
        Ok(ToolReply { title: String::new(), output, metadata, attachments })
    }

    /// What a model reads of a call that has no result.
    fn failure(&self, error: &ToolServerError) -> ToolError {
        if *error == ToolServerError::Cancelled {
            return ToolError::Aborted;
        }
        let message = format!("The server {} failed: {error}", self.server.name());
        ToolError::Failed { message, metadata: self.metadata() }
    }
}

impl Tool for McpTool {
    fn schema(&self) -> ToolSchema {
        let mut parameters = self.tool.input_schema.clone();
        parameters.insert("additionalProperties".to_owned(), Value::Bool(false));
        ToolSchema {
            name: self.name.clone(),
            description: self.tool.description.clone(),
            parameters: Value::Object(parameters),
        }
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        self.tool.is_read_only.then(Vec::new)
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let Value::Object(arguments) = input else {
            return Err(ToolError::failed(format!("{}: $ must be an object", self.name)));
        };
        self.check_current()?;
        self.ask(host, arguments)?;
        // The server may have changed it while the person was asked.
        self.check_current()?;
        let window = self.open_window(host)?;
        let result = self.call(host, arguments.clone());
        if let Some(window) = window {
            let calls = host.engine().tool_calls();
            let closed = calls.close(&host.context(), host.turn(), &window);
            closed.map_err(|error| engine_error(&error))?;
        }
        self.reply(result.map_err(|error| self.failure(&error))?)
    }
}

fn attachment(file: ToolResultFile) -> ToolAttachment {
    let url = format!("data:{};base64,{}", file.mime, file.base64);
    ToolAttachment { mime: file.mime, url, filename: file.name }
}

fn engine_error(error: &EngineError) -> ToolError {
    match error.is_turn_lost() {
        true => ToolError::Aborted,
        false => ToolError::failed(error.to_string()),
    }
}
