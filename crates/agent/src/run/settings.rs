//! What the loop needs to know of the configuration: agents, models, limits.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use turnstone_core::context::{CompactionSettings, ModelLimits};
use turnstone_core::model::{MessageFailure, ModelRef};

use crate::model::{ModelUsage, Provider};
use crate::tool::Tool;

/// Computes what an answer costs, in dollars; `None` if a price is unknown.
pub type CostFunction = Arc<dyn Fn(&ModelUsage) -> Option<f64> + Send + Sync>;

/// Why the configuration gives no agent or model, in the form that messages store.
pub type SettingsFailure = Box<MessageFailure>;

/// Reads the configuration that is in force in a directory. Called once for each step, so that a change takes
/// effect with the next one.
pub trait RunSettings: Send + Sync {
    /// Returns an agent.
    ///
    /// # Errors
    ///
    /// There is no such agent, or the configuration cannot be read; the message of the failure says so.
    fn agent(&self, directory: &Path, name: &str) -> Result<RunAgent, SettingsFailure>;

    /// Returns a model, ready to be asked.
    ///
    /// # Errors
    ///
    /// The model is unknown, or it has no key.
    fn model(
        &self,
        directory: &Path,
        model: &ModelRef,
        agent: &RunAgent,
    ) -> Result<RunModel, SettingsFailure>;

    /// Returns the model that writes titles; `None` if it is the model of the answer.
    fn small_model(&self, directory: &Path, model: &ModelRef) -> Option<RunModel>;

    /// Returns the limits of a run.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    fn limits(&self, directory: &Path) -> Result<RunLimits, SettingsFailure>;

    /// Returns the texts of instruction files, each with where it comes from.
    fn instructions(&self, directory: &Path, worktree: &Path) -> Vec<(String, String)>;

    /// Returns the tools of a directory, sorted by name.
    fn tools(&self, directory: &Path) -> Vec<Arc<dyn Tool>>;
}

/// An agent, as far as the loop is concerned; its permissions are with the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunAgent {
    /// The name.
    pub name: String,
    /// The system prompt; `None` for the default one.
    pub prompt: Option<String>,
    /// `provider/model`, if the agent has its own.
    pub model: Option<(String, String)>,
    /// The variant of its own model.
    pub variant: Option<String>,
    /// After so many steps the tools are withheld.
    pub steps: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The nucleus of the sampling.
    pub top_p: Option<f64>,
    /// Options for the model.
    pub options: Map<String, Value>,
    /// A subagent may be called by the `task` tool.
    pub is_subagent: bool,
}

/// A model, ready to be asked.
#[derive(Clone)]
pub struct RunModel {
    /// Carries requests to it.
    pub provider: Arc<dyn Provider>,
    /// Its name in messages.
    pub name: ModelRef,
    /// Its name at the provider.
    pub wire_name: String,
    /// How much it can read and write.
    pub limits: ModelLimits,
    /// Options of provider, model, agent and variant, merged.
    pub options: Map<String, Value>,
    /// The sampling temperature, where the model accepts one.
    pub temperature: Option<f64>,
    /// The nucleus of the sampling, where the model accepts one.
    pub top_p: Option<f64>,
    /// Tool results may hold images and documents.
    pub media_in_results: bool,
    /// The model accepts no images.
    pub without_media: bool,
    /// The model can call tools.
    pub calls_tools: bool,
    /// What an answer costs.
    pub cost: CostFunction,
}

/// The limits of a run.
#[derive(Clone, Debug)]
pub struct RunLimits {
    /// When and how the context is compacted.
    pub compaction: CompactionSettings,
    /// Old tool outputs are cleared from the context after a turn.
    pub prunes_outputs: bool,
    /// How deep subagents may call subagents.
    pub subagent_depth: u32,
    /// A turn goes on after a person refused a call.
    pub continues_after_refusal: bool,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            compaction: CompactionSettings::default(),
            prunes_outputs: false,
            subagent_depth: 1,
            continues_after_refusal: false,
        }
    }
}
