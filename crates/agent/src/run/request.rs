//! What a step asks a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use turnstone_core::context::{ContextMessage, ModelTarget, to_model_messages};
use turnstone_core::id::MessageId;
use turnstone_core::model::{Message, MessageBody};
use turnstone_core::permission::list_hidden_tools;
use turnstone_engine::{Result, RuleScope};

use super::system_prompt::{STEP_LIMIT_NOTICE, system_prompt};
use super::turn_run::StepSetup;
use super::turn_shared::TurnShared;
use crate::model::{ModelRequest, ToolChoice, ToolSchema};
use crate::tool::{Tool, ToolScope, prefers_patches};

/// The tool through which a model gives a structured answer.
pub(crate) const STRUCTURED_TOOL: &str = "StructuredOutput";
const STRUCTURED_DESCRIPTION: &str = "Gives the final answer in the required shape. Call it exactly once, when the answer is complete.";
/// The longest answer that is asked for.
const MAX_OUTPUT_TOKENS: u64 = 32_000;

/// What a request is made of.
pub(crate) struct RequestInput<'r> {
    pub(crate) shared: &'r TurnShared,
    pub(crate) setup: &'r StepSetup,
    /// The prompt that is answered.
    pub(crate) prompt: &'r Message,
    /// The number of the step in its turn, from 1.
    pub(crate) step: u32,
}

impl RequestInput<'_> {
    /// True from the last step on in which the agent may use tools: the model is to answer in text.
    fn is_limited(&self) -> bool {
        self.setup.agent.steps.is_some_and(|limit| self.step > limit.max(1))
    }

    /// Returns the tools of the step: those that the rules do not deny altogether and the model can use.
    pub(crate) fn tools(&self) -> Result<BTreeMap<String, Arc<dyn Tool>>> {
        let model = &self.setup.model;
        if self.is_limited() || !model.calls_tools {
            return Ok(BTreeMap::new());
        }
        let all = self.shared.runner.settings.tools(&self.shared.directory);
        let patches = prefers_patches(&model.wire_name);
        let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        for tool in all {
            let name = tool.schema().name;
            let is_wanted = match name.as_str() {
                "apply_patch" => patches,
                "edit" | "write" => !patches,
                _ => true,
            };
            if is_wanted {
                tools.insert(name, tool);
            }
        }
        let names: Vec<String> = tools.keys().cloned().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let permissions = self.shared.engine().permissions();
        let session = &self.shared.turn.session;
        let subject = RuleScope::Session { session, agent: Some(&self.setup.agent.name) };
        let rules = permissions.rules().resolve(&self.shared.context(), subject)?;
        for hidden in list_hidden_tools(&names, &rules.layers()) {
            tools.remove(hidden);
        }
        Ok(tools)
    }

    /// Returns where and for whom the calls of the step run.
    pub(crate) fn scope(&self, answer: &MessageId) -> ToolScope {
        let name = &self.setup.model.name;
        ToolScope {
            session: self.shared.turn.session.clone(),
            message: answer.clone(),
            agent: self.setup.agent.name.clone(),
            model: format!("{}/{}", name.provider, name.model),
            directory: self.shared.directory.clone(),
            worktree: self.shared.worktree.clone(),
            data_directory: self.shared.runner.data.clone(),
        }
    }
}

/// Returns the request of a step.
pub(crate) fn build_request(
    input: &RequestInput<'_>,
    seen: &[ContextMessage],
    tools: &BTreeMap<String, Arc<dyn Tool>>,
) -> ModelRequest {
    let (shared, StepSetup { agent, model }) = (input.shared, input.setup);
    let mut schemas: Vec<ToolSchema> = tools.values().map(|tool| tool.schema()).collect();
    let wanted = output_schema(input.prompt);
    let tool_choice = match &wanted {
        Some(parameters) => {
            schemas.push(ToolSchema {
                name: STRUCTURED_TOOL.to_owned(),
                description: STRUCTURED_DESCRIPTION.to_owned(),
                parameters: parameters.clone(),
            });
            ToolChoice::Required
        }
        None => ToolChoice::Auto,
    };
    let mut system = system_prompt(shared, agent, model, input.prompt);
    if input.is_limited() {
        system.push(STEP_LIMIT_NOTICE.to_owned());
    }
    let limit = match model.limits.output {
        0 => MAX_OUTPUT_TOKENS,
        known => known.min(MAX_OUTPUT_TOKENS),
    };
    ModelRequest {
        model: model.wire_name.clone(),
        system,
        messages: to_model_messages(seen, &target_of(model)),
        tools: schemas,
        tool_choice,
        max_output_tokens: Some(limit),
        temperature: model.temperature,
        top_p: model.top_p,
        options: model.options.clone(),
        session: shared.turn.session.to_string(),
        parent: shared.parent.as_ref().map(ToString::to_string),
    }
}

/// What is left out of a conversation for a model.
pub(crate) fn target_of(model: &super::settings::RunModel) -> ModelTarget {
    ModelTarget {
        provider: model.name.provider.clone(),
        model: model.name.model.clone(),
        media_in_results: model.media_in_results,
        without_media: model.without_media,
        output_limit: None,
    }
}

/// The schema of the answer that a prompt asks for.
pub(crate) fn output_schema(prompt: &Message) -> Option<Value> {
    let MessageBody::User(user) = &prompt.body else { return None };
    let format = user.format.as_ref()?;
    if format.get("type").and_then(Value::as_str) != Some("json_schema") {
        return None;
    }
    let mut schema: Map<String, Value> = format.get("schema")?.as_object()?.clone();
    schema.shift_remove("$schema");
    Some(Value::Object(schema))
}
