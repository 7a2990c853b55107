//! A tool with commands of the configuration before and after its calls.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use turnstone_core::permission::matches_wildcard;

use crate::model::ToolSchema;
use crate::tool::{
    CommandSettings, HookCommand, HookMoment, Tool, ToolError, ToolHost, ToolReply, ToolScope,
    run_hook,
};

/// A command of the configuration around calls.
#[derive(Clone, Debug)]
pub(super) struct ToolHook {
    /// When it runs.
    pub(super) moment: HookMoment,
    /// The tools it runs for, with `*` and `?`.
    pub(super) tool: String,
    /// What it runs.
    pub(super) command: HookCommand,
}

/// A tool with hooks.
pub(super) struct HookedTool {
    tool: Arc<dyn Tool>,
    name: String,
    hooks: Vec<ToolHook>,
    commands: CommandSettings,
}

impl HookedTool {
    /// Returns a tool with those of `hooks` that are for it; itself if there are none.
    pub(super) fn wrap(
        tool: Arc<dyn Tool>,
        hooks: &[ToolHook],
        commands: &CommandSettings,
    ) -> Arc<dyn Tool> {
        let name = tool.schema().name;
        let own: Vec<ToolHook> =
            hooks.iter().filter(|hook| matches_wildcard(&name, &hook.tool)).cloned().collect();
        if own.is_empty() {
            return tool;
        }
        Arc::new(Self { tool, name, hooks: own, commands: commands.clone() })
    }

    fn run_hooks(
        &self,
        host: &dyn ToolHost,
        moment: HookMoment,
        input: &Value,
    ) -> Result<(), ToolError> {
        for hook in self.hooks.iter().filter(|hook| hook.moment == moment) {
            run_hook(host, &self.commands, &hook.command, (moment, &self.name, input))?;
        }
        Ok(())
    }
}

impl Tool for HookedTool {
    fn schema(&self) -> ToolSchema {
        self.tool.schema()
    }

    /// A hook may write anything.
    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        None
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        self.run_hooks(host, HookMoment::Before, input)?;
        let mut reply = self.tool.run(host, input)?;
        match self.run_hooks(host, HookMoment::After, input) {
            Ok(()) => Ok(reply),
            Err(ToolError::Aborted) => Err(ToolError::Aborted),
            // The call is done; the model reads what its hook complained about.
            Err(error) => {
                reply.output = format!("{}\n\n{error}", reply.output);
                Ok(reply)
            }
        }
    }
}
