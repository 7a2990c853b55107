//! What an agent is: its prompt, its model and what it may do.

use serde_json::{Map, Value};
use turnstone_core::permission::{BuiltinAgent, PermissionRule};

use super::agent_rules::list_agent_rules;
use super::builtin_prompts::{builtin_description, builtin_prompt, working_prompt};
use crate::error::ConfigError;
use crate::model::ModelName;
use crate::settings_reader::SettingsReader;
use crate::source::SettingsLayer;

/// Fields of an agent that are read here; the others are options for its model.
const KNOWN_FIELDS: [&str; 17] = [
    "name",
    "description",
    "mode",
    "model",
    "variant",
    "prompt",
    "temperature",
    "top_p",
    "color",
    "hidden",
    "steps",
    "maxSteps",
    "permission",
    "tools",
    "disable",
    "options",
    "native",
];

/// Where an agent can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentMode {
    /// By people.
    Primary,
    /// By other agents.
    Subagent,
    /// By both.
    All,
}

impl AgentMode {
    /// Returns the name in configuration files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Primary, Self::Subagent, Self::All].into_iter().find(|mode| mode.as_str() == name)
    }
}

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentProfile {
    /// The name by which it is chosen.
    pub name: String,
    /// True for a built-in agent, even if it was configured.
    pub is_builtin: bool,
    /// Where it can be chosen.
    pub mode: AgentMode,
    /// True if lists for people omit it.
    pub is_hidden: bool,
    /// What it is for.
    pub description: Option<String>,
    /// Its own prompt; [`AgentProfile::system_prompt`] also knows the built-in ones.
    pub prompt: Option<String>,
    /// The model that it wants.
    pub model: Option<ModelName>,
    /// The variant of that model.
    pub variant: Option<String>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The nucleus of the sampling.
    pub top_p: Option<f64>,
    /// How many steps it may take in a turn.
    pub steps: Option<u32>,
    /// The colour in which clients show it.
    pub color: Option<String>,
    /// Options for the model.
    pub options: Map<String, Value>,
    /// Its permission rules, the weakest first. The engine evaluates the same sources and also knows the
    /// session's and the approved ones.
    pub rules: Vec<PermissionRule>,
}

impl AgentProfile {
    /// Returns the system prompt: the configured one, else the built-in one.
    #[must_use]
    pub fn system_prompt(&self) -> &str {
        match (&self.prompt, BuiltinAgent::parse(&self.name)) {
            (Some(prompt), _) if !prompt.is_empty() => prompt,
            (_, Some(builtin)) if self.is_builtin => builtin_prompt(builtin),
            _ => working_prompt(),
        }
    }

    /// True if a person may choose the agent.
    #[must_use]
    pub fn is_selectable(&self) -> bool {
        !self.is_hidden && self.mode != AgentMode::Subagent
    }

    /// Lists all agents: the default one first, the others by name.
    pub(crate) fn list(
        layers: &[SettingsLayer],
        settings: &SettingsReader<'_>,
        home: &str,
    ) -> Result<Vec<Self>, ConfigError> {
        let mut agents = Vec::new();
        for builtin in BuiltinAgent::ALL {
            agents.push(Self::builtin(builtin));
        }
        for (name, fields) in settings.tables("agent")? {
            if fields.flag("disable")? == Some(true) {
                agents.retain(|agent| agent.name != name);
                continue;
            }
            match agents.iter_mut().find(|agent| agent.name == name) {
                Some(agent) => agent.configure(&fields)?,
                None => {
                    let mut agent = Self::custom(&name);
                    agent.configure(&fields)?;
                    agents.push(agent);
                }
            }
        }
        for agent in &mut agents {
            let builtin = BuiltinAgent::parse(&agent.name).filter(|_| agent.is_builtin);
            agent.rules = list_agent_rules(layers, home, (&agent.name, builtin))?;
        }
        let first = settings.text("default_agent")?.unwrap_or_else(|| "build".to_owned());
        agents.sort_by(|a, b| (a.name != first, &a.name).cmp(&(b.name != first, &b.name)));
        Ok(agents)
    }

    fn builtin(agent: BuiltinAgent) -> Self {
        // Titles are short: some variety reads better than the most likely words.
        let temperature = (agent == BuiltinAgent::Title).then_some(0.5);
        let mode = if agent.is_subagent() { AgentMode::Subagent } else { AgentMode::Primary };
        Self {
            is_builtin: true,
            mode,
            is_hidden: agent.is_hidden(),
            description: builtin_description(agent).map(str::to_owned),
            temperature,
            ..Self::custom(agent.as_str())
        }
    }

    fn custom(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_builtin: false,
            mode: AgentMode::All,
            is_hidden: false,
            description: None,
            prompt: None,
            model: None,
            variant: None,
            temperature: None,
            top_p: None,
            steps: None,
            color: None,
            options: Map::new(),
            rules: Vec::new(),
        }
    }

    /// Applies the configured fields.
    fn configure(&mut self, fields: &SettingsReader<'_>) -> Result<(), ConfigError> {
        if let Some(mode) = fields.text("mode")? {
            self.mode = AgentMode::parse(&mode)
                .ok_or_else(|| fields.error("mode", "it must be primary, subagent or all"))?;
        }
        if let Some(hidden) = fields.flag("hidden")? {
            self.is_hidden = hidden;
        }
        if let Some(name) = fields.text("model")? {
            let model = ModelName::parse(&name);
            self.model =
                Some(model.ok_or_else(|| fields.error("model", "it must be provider/model"))?);
        }
        for (key, field) in [
            ("description", &mut self.description),
            ("prompt", &mut self.prompt),
            ("variant", &mut self.variant),
            ("color", &mut self.color),
        ] {
            if let Some(text) = fields.text(key)? {
                *field = Some(text);
            }
        }
        for (key, field) in [("temperature", &mut self.temperature), ("top_p", &mut self.top_p)] {
            if let Some(number) = fields.number(key)? {
                *field = Some(number);
            }
        }
        for key in ["maxSteps", "steps"] {
            if let Some(steps) = fields.count(key)? {
                self.steps = Some(u32::try_from(steps).unwrap_or(u32::MAX));
            }
        }
        if let Some(options) = fields.find_table("options")? {
            self.options.extend(options.map().clone());
        }
        let others = fields.map().iter().filter(|(key, _)| !KNOWN_FIELDS.contains(&key.as_str()));
        self.options.extend(others.map(|(key, value)| (key.clone(), value.clone())));
        Ok(())
    }
}
