//! The tool `task`: lets a subagent work in a session of its own.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::accessed_path::permission_ask;
use super::input::ToolInput;
use super::schema::{string, tool_schema};
use super::{SubagentTask, Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};
use crate::model::ToolSchema;

/// The name of the tool.
const NAME: &str = "task";

const DESCRIPTION: &str = "Lets a subagent work on a task in a session of its own, and returns its last \
    answer.\n\n\
    - Use it for searches of many steps and for work that can be done on its own; call it several times in \
    one answer for tasks that do not depend on each other.\n\
    - The subagent knows nothing of this conversation: say in the prompt all it needs, what it shall do, \
    and what it shall report. The user does not see its answer, so pass on what matters.\n\
    - With task_id, the id that an earlier task returned, the same subagent continues with all it knows.";

/// An agent that can be called as a subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// Lets subagents work.
pub struct TaskTool {
    agents: Vec<SubagentInfo>,
}

impl TaskTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        let mut agents = settings.subagents.clone();
        agents.sort_by(|one, two| one.name.cmp(&two.name));
        Self { agents }
    }
}

impl Tool for TaskTool {
    fn schema(&self) -> ToolSchema {
        let agent = |agent: &SubagentInfo| format!("- {}: {}", agent.name, agent.description);
        let agents: Vec<String> = self.agents.iter().map(agent).collect();
        let description = match agents.is_empty() {
            true => DESCRIPTION.to_owned(),
            false => format!("{DESCRIPTION}\n\nSubagents:\n{}", agents.join("\n")),
        };
        let properties = json!({
            "description": string("The task in three to five words"),
            "prompt": string("What the subagent shall do"),
            "subagent_type": string("The name of the subagent"),
            "task_id": string("The id of an earlier task to continue"),
            "command": string("The command that leads to this task"),
        });
        tool_schema(NAME, description, &properties, &["description", "prompt", "subagent_type"])
    }

    /// The subagent's own calls write, under their own change sets; several subagents may work at once.
    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let agent = input.string("subagent_type")?;
        let task = SubagentTask {
            agent: agent.to_owned(),
            description: input.string("description")?.to_owned(),
            prompt: input.string("prompt")?.to_owned(),
            session: input
                .optional_string("task_id")?
                .filter(|id| !id.is_empty())
                .map(str::to_owned),
        };
        if !self.agents.iter().any(|known| known.name == agent) {
            let names: Vec<&str> = self.agents.iter().map(|known| known.name.as_str()).collect();
            return Err(ToolError::failed(format!(
                "There is no subagent {agent:?}. Subagents: {}",
                names.join(", ")
            )));
        }
        let title = task.description.clone();
        let metadata = json!({ "description": title, "subagent_type": agent });
        let always = vec!["*".to_owned()];
        host.ask(permission_ask(NAME, vec![agent.to_owned()], always, metadata))?;
        let outcome = host.run_subagent(task)?;
        let (provider, model) = outcome.model.split_once('/').unwrap_or(("", &outcome.model));
        let metadata = json!({
            "parentSessionId": host.scope().session,
            "sessionId": outcome.session,
            "model": { "providerID": provider, "modelID": model },
        });
        let output = format!(
            "<task id=\"{}\" state=\"completed\">\n{}\n</task>",
            outcome.session.as_str(),
            outcome.text
        );
        Ok(ToolReply::new(title, output, metadata))
    }
}
