//! The settings of the loop, from the configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use turnstone_config::{AgentMode, AgentProfile, ConfigEnvironment, ModelName};
use turnstone_core::model::{ExtraFields, ModelRef};
use turnstone_core::time::EpochMillis;
use turnstone_engine::{Engine, SupervisorProgram};
use turnstone_mcp::ToolServerPoolSettings;
use turnstone_outbound::OutboundError;

use super::directory_configuration::DirectoryConfiguration;
use super::instruction_files::InstructionReader;
use super::model_setup::{set_up_model, weakest_variant};
use super::network::http_settings;
use super::provider_cache::ProviderCache;
use super::settings_failure::missing_agent;
use super::skill_files;
use super::tool_set::{command_settings, list_tools, mcp_place};
use crate::mcp::{McpServerReport, McpToolSet};
use crate::run::{RunAgent, RunLimits, RunModel, RunSettings, SettingsFailure};
use crate::tool::{SkillInfo, Tool};

/// The agent that writes titles.
const TITLE_AGENT: &str = "title";
/// After so many directories the cache begins again.
const MAX_DIRECTORIES: usize = 64;

/// After this time without a call or a step, MCP servers are closed until they are needed again.
const SERVER_IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What the program knows of its surroundings.
#[derive(Clone)]
pub struct RunEnvironment {
    /// The engine that knows the roots of projects.
    pub engine: Arc<Engine>,
    /// Where configuration and keys are.
    pub configuration: ConfigEnvironment,
    /// The environment variables: proxies and certificates are read from them, and commands get them without keys.
    pub variables: Vec<(OsString, OsString)>,
    /// How this program is started again to watch over a command.
    pub supervisor: SupervisorProgram,
    /// Whether to record what commands write.
    pub is_traced: bool,
    /// Reads the present time.
    pub clock: fn() -> EpochMillis,
}

/// Settings of the loop from the configuration of the session's directory.
///
/// The files are read again whenever an agent is asked for, which a step does first; what else it asks for comes from
/// the same reading.
pub struct ConfiguredRunSettings {
    environment: RunEnvironment,
    providers: ProviderCache,
    servers: McpToolSet,
    loaded: Mutex<BTreeMap<PathBuf, Arc<DirectoryConfiguration>>>,
}

impl ConfiguredRunSettings {
    /// Returns the settings. No file is read before they are asked for something.
    ///
    /// # Errors
    ///
    /// A proxy that a variable names cannot be used.
    pub fn new(environment: RunEnvironment) -> Result<Self, OutboundError> {
        let providers = ProviderCache::new(http_settings(&environment.variables))?;
        let pool = ToolServerPoolSettings {
            client_name: "turnstone".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            supervisor: Some(environment.supervisor.clone()),
            http: Some(providers.client().clone()),
            idle_limit: SERVER_IDLE_LIMIT,
        };
        let servers = McpToolSet::new(pool, environment.configuration.data());
        Ok(Self { environment, providers, servers, loaded: Mutex::default() })
    }

    /// Reads the configuration of a directory.
    ///
    /// # Errors
    ///
    /// As [`DirectoryConfiguration::load`].
    pub fn load(&self, directory: &Path) -> Result<Arc<DirectoryConfiguration>, SettingsFailure> {
        let place = Arc::new(DirectoryConfiguration::load(&self.environment, directory)?);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.len() >= MAX_DIRECTORIES {
            loaded.clear();
        }
        loaded.insert(directory.to_owned(), place.clone());
        Ok(place)
    }

    /// Returns the skills of a directory.
    ///
    /// # Errors
    ///
    /// As [`DirectoryConfiguration::load`].
    pub fn list_skills(&self, directory: &Path) -> Result<Vec<SkillInfo>, SettingsFailure> {
        let place = DirectoryConfiguration::load(&self.environment, directory)?;
        Ok(skill_files::list_skills(&self.environment.configuration, &place))
    }

    /// Returns the configuration as it was read last.
    fn last_loaded(
        &self,
        directory: &Path,
    ) -> Result<Arc<DirectoryConfiguration>, SettingsFailure> {
        let known = {
            let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.get(directory).cloned()
        };
        known.map_or_else(|| self.load(directory), Ok)
    }

    /// Connects the MCP servers of a directory, waits for them at most for `limit`, and describes them.
    ///
    /// # Errors
    ///
    /// The configuration or the record of allowed tools cannot be read.
    pub fn report_mcp_servers(
        &self,
        directory: &Path,
        limit: Duration,
    ) -> Result<Vec<McpServerReport>, String> {
        let place = self.load(directory).map_err(|failure| describe_failure(&failure))?;
        let commands = command_settings(&self.environment, &place.configuration);
        let found = self.servers.report(&mcp_place(&place, &commands), limit);
        found.map_err(|error| error.to_string())
    }

    /// Ends all MCP servers.
    pub fn close_mcp_servers(&self) {
        self.servers.close();
    }

    fn find_small_model(&self, directory: &Path, model: &ModelRef) -> Option<RunModel> {
        let place = self.last_loaded(directory).ok()?;
        let answering = ModelName { provider: model.provider.clone(), model: model.model.clone() };
        let title = place.configuration.find_agent(TITLE_AGENT)?;
        let name = match &title.model {
            Some(own) => own.clone(),
            None => place.configuration.small_model(&answering),
        };
        if title.model.is_none() && name == answering {
            return None;
        }
        let resolved = place.configuration.resolve_model(&name.to_string(), None).ok()?;
        let variant = title.variant.clone().or_else(|| weakest_variant(&resolved));
        let ModelName { provider, model } = name;
        let name = ModelRef { provider, model, variant, extra: ExtraFields::new() };
        set_up_model(&place, &self.providers, (&name, &run_agent(title))).ok()
    }
}

impl RunSettings for ConfiguredRunSettings {
    fn agent(&self, directory: &Path, name: &str) -> Result<RunAgent, SettingsFailure> {
        let place = self.load(directory)?;
        let found = place.configuration.find_agent(name);
        found.map(run_agent).ok_or_else(|| {
            let agents = place.configuration.agents().iter();
            let known = agents.filter(|agent| !agent.is_hidden).map(|agent| agent.name.as_str());
            missing_agent(name, &known.collect::<Vec<_>>())
        })
    }

    fn model(
        &self,
        directory: &Path,
        model: &ModelRef,
        agent: &RunAgent,
    ) -> Result<RunModel, SettingsFailure> {
        set_up_model(&*self.last_loaded(directory)?, &self.providers, (model, agent))
    }

    fn small_model(&self, directory: &Path, model: &ModelRef) -> Option<RunModel> {
        self.find_small_model(directory, model)
    }

    fn limits(&self, directory: &Path) -> Result<RunLimits, SettingsFailure> {
        let place = self.last_loaded(directory)?;
        let settings = place.configuration.settings();
        Ok(RunLimits {
            compaction: settings.compaction.clone(),
            prunes_outputs: settings.is_pruning,
            subagent_depth: settings.subagent_depth,
            continues_after_refusal: settings.continues_after_refusal,
        })
    }

    fn instructions(&self, directory: &Path, _worktree: &Path) -> Vec<(String, String)> {
        let Ok(place) = self.last_loaded(directory) else { return Vec::new() };
        let reader = InstructionReader {
            place: &place,
            environment: &self.environment.configuration,
            client: self.providers.client(),
        };
        let mut texts = reader.read_all();
        let commands = command_settings(&self.environment, &place.configuration);
        texts.extend(self.servers.instructions(&mcp_place(&place, &commands)));
        texts
    }

    fn tools(&self, directory: &Path) -> Vec<Arc<dyn Tool>> {
        match self.last_loaded(directory) {
            Ok(place) => list_tools(&self.environment, &self.providers, &self.servers, &place),
            // A step asks for its agent first, and ends there with the reason.
            Err(_) => Vec::new(),
        }
    }
}

/// The words of a failure.
fn describe_failure(failure: &SettingsFailure) -> String {
    let words = failure.data.get("message").and_then(|it| it.as_str());
    words.unwrap_or("the configuration cannot be read").to_owned()
}

fn run_agent(profile: &AgentProfile) -> RunAgent {
    let own = profile.model.clone();
    RunAgent {
        name: profile.name.clone(),
        prompt: Some(profile.system_prompt().to_owned()),
        model: own.map(|ModelName { provider, model }| (provider, model)),
        variant: profile.variant.clone(),
        steps: profile.steps,
        temperature: profile.temperature,
        top_p: profile.top_p,
        options: profile.options.clone(),
        is_subagent: profile.mode != AgentMode::Primary,
    }
}
