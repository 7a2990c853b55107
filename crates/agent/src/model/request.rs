//! One request to a model, before any wire has encoded it.

use serde_json::{Map, Value};
use turnstone_core::context::ModelMessage;

/// What one step of the loop asks a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    /// The model's name at its provider (`api.id` of the catalogue).
    pub model: String,
    /// The system prompts, in order.
    pub system: Vec<String>,
    /// The conversation.
    pub messages: Vec<ModelMessage>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSchema>,
    /// Whether the model must call a tool.
    pub tool_choice: ToolChoice,
    /// The most tokens the model may answer with.
    pub max_output_tokens: Option<u64>,
    /// The sampling temperature, where the model accepts one.
    pub temperature: Option<f64>,
    /// The nucleus of the sampling, where the model accepts one.
    pub top_p: Option<f64>,
    /// Options of the provider, model, agent and variant, merged; a wire maps the names it knows and
    /// passes the others on.
    pub options: Map<String, Value>,
    /// The session, for headers and prompt caches.
    pub session: String,
    /// The parent of a subagent's session.
    pub parent: Option<String>,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// The name that the model calls.
    pub name: String,
    /// What the tool is for.
    pub description: String,
    /// The JSON schema of the arguments.
    pub parameters: Value,
}

/// Whether the model must call a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call one.
    Required,
    /// The model must not call one.
    None,
}
