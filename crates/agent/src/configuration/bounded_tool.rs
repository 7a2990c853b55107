//! A tool whose output a model can read at once.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::model::ToolSchema;
use crate::tool::{
    Tool, ToolError, ToolHost, ToolOutputLimits, ToolReply, ToolScope, limit_output,
};

/// A tool whose long outputs go to a file, and the model reads their beginning.
pub(super) struct BoundedTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) limits: ToolOutputLimits,
    /// A subagent may read the rest.
    pub(super) can_delegate: bool,
}

impl Tool for BoundedTool {
    fn schema(&self) -> ToolSchema {
        self.tool.schema()
    }

    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
        self.tool.written_paths(scope, input)
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let reply = self.tool.run(host, input)?;
        Ok(limit_output(host, self.limits, self.can_delegate, reply))
    }
}
