//! The configuration that applies in a place: all sources, merged and checked.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::agent::{AgentProfile, CommandDefinition};
use crate::environment::ConfigEnvironment;
use crate::error::ConfigError;
use crate::model::{
    AuthFile, Catalogue, ModelName, ModelResolutionError, ModelResolver, ProviderProfile,
    ProviderViews, ResolvedModel, WrongField, catalogue_path, default_model, small_model,
};
use crate::secret::Secret;
use crate::settings::AgentSettings;
use crate::settings_reader::SettingsReader;
use crate::source::{ConfigSources, LayerOrigin, SettingsLayer, merge_tables};
use crate::trust::{RestrictedKey, TrustedFiles};

/// A configuration. It holds secrets: its `Debug` shows none, and [`Configuration::shown_settings`] must be redacted
/// before it is shown.
pub struct Configuration {
    layers: Vec<SettingsLayer>,
    environment: ConfigEnvironment,
    merged: Map<String, Value>,
    shown: Map<String, Value>,
    agents: Vec<AgentProfile>,
    commands: Vec<CommandDefinition>,
    settings: AgentSettings,
    auth: AuthFile,
    views: ProviderViews,
    providers: Vec<ProviderProfile>,
    model: Option<String>,
    small_model: Option<String>,
    default_agent: String,
}

/// A source of a configuration, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFileSummary {
    /// The file, or the name of an environment variable.
    pub path: PathBuf,
    /// True for a file of the project.
    pub is_of_project: bool,
    /// True for files of the user and for a project's files that the user trusts.
    pub is_trusted: bool,
    /// What the file sets and is not in force for lack of trust, with the lines.
    pub restricted: Vec<(RestrictedKey, Option<usize>)>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<_> = self.layers.iter().map(|layer| &layer.path).collect();
        f.debug_struct("Configuration").field("files", &files).finish_non_exhaustive()
    }
}

impl Configuration {
    /// Reads and checks all sources.
    ///
    /// # Errors
    ///
    /// The first mistake, with file, line and key.
    pub fn load(sources: &ConfigSources<'_>) -> Result<Self, ConfigError> {
        let environment = sources.environment;
        let trusted = match sources.project {
            Some(_) => TrustedFiles::read(environment.data())
                .map_err(|error| ConfigError::new(&error.path, error.reason))?,
            None => TrustedFiles::default(),
        };
        let layers = sources.read_layers(&trusted)?;
        let of = |origin| move |layer: &SettingsLayer| layer.origin == origin;
        let user = merge_layers(&layers, of(LayerOrigin::User), |layer| &layer.settings);
        let project = merge_layers(&layers, of(LayerOrigin::Project), |layer| &layer.settings);
        let mut merged = merge_layers(&layers, |_| true, |layer| &layer.settings);
        let mut shown = merge_layers(&layers, |_| true, |layer| &layer.shown);
        merge_modes_and_tools(&mut merged);
        merge_modes_and_tools(&mut shown);
        let settings = SettingsReader::new(&layers, &merged);
        let agents = AgentProfile::list(&layers, &settings, &environment.home_text())?;
        let commands = CommandDefinition::list(&settings)?;
        let disabled = ["OPENCODE_DISABLE_AUTOCOMPACT", "OPENCODE_DISABLE_PRUNE"]
            .map(|name| environment.has_flag(name));
        let agent_settings = AgentSettings::read(&layers, &settings, disabled.into())?;
        settings.tables("provider")?;
        let catalogue = Catalogue::read(environment)?;
        let auth = AuthFile::read(environment)
            .map_err(|error| ConfigError::new(&error.path, error.reason))?;
        let views = ProviderViews::new(&catalogue, [&merged, &user, &project]);
        let enabled = ProviderSelection::read(&settings)?;
        let (model, small_model) = (settings.text("model")?, settings.text("small_model")?);
        let default_agent = settings.text("default_agent")?.unwrap_or_else(|| "build".to_owned());
        let configured = shown.get("provider").and_then(Value::as_object).cloned();
        let is_enabled = |id: &str| enabled.has(id);
        let providers = ProviderProfile::list(
            &views,
            &configured.unwrap_or_default(),
            is_enabled,
            &auth,
            environment,
        );
        let providers =
            providers.map_err(|(id, wrong)| provider_error(&layers, environment, &id, &wrong))?;
        Ok(Self {
            environment: environment.clone(),
            merged,
            shown,
            agents,
            commands,
            settings: agent_settings,
            auth,
            views,
            providers,
            model,
            small_model,
            default_agent,
            layers,
        })
    }

    /// Returns all agents: the default one first, the others by name.
    #[must_use]
    pub fn agents(&self) -> &[AgentProfile] {
        &self.agents
    }

    /// Returns an agent.
    #[must_use]
    pub fn find_agent(&self, name: &str) -> Option<&AgentProfile> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the name of the agent that answers if no other is named.
    #[must_use]
    pub fn default_agent(&self) -> &str {
        &self.default_agent
    }

    /// Returns all commands.
    #[must_use]
    pub fn commands(&self) -> &[CommandDefinition] {
        &self.commands
    }

    /// Returns the settings of tools and of the loop.
    #[must_use]
    pub const fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// Returns all providers that are not switched off: of the catalogue and of the configuration.
    #[must_use]
    pub fn providers(&self) -> &[ProviderProfile] {
        &self.providers
    }

    /// Returns the providers that can be used: those with a key and those that are configured.
    pub fn available_providers(&self) -> impl Iterator<Item = &ProviderProfile> {
        self.providers.iter().filter(|provider| provider.is_available())
    }

    /// Returns for a provider the model that is used unless another is named.
    #[must_use]
    pub fn default_model_of(&self, provider: &ProviderProfile) -> Option<String> {
        default_model(provider).map(|model| model.id.clone())
    }

    /// Returns the model that answers if nobody names one: the configured one, else the one that was used last if
    /// it still exists, else the default of the first provider that can be used.
    #[must_use]
    pub fn default_model(&self, recent: Option<&ModelName>) -> Option<ModelName> {
        if let Some(model) = &self.model {
            return ModelName::parse(model);
        }
        let exists = |name: &&ModelName| {
            let provider = self.available_providers().find(|it| it.id == name.provider);
            provider.is_some_and(|it| it.models.iter().any(|model| model.id == name.model))
        };
        recent.filter(exists).cloned().or_else(|| {
            // What people configured comes before what a variable happens to unlock.
            let mut available: Vec<&ProviderProfile> = self.available_providers().collect();
            available.sort_by_key(|provider| !provider.is_configured);
            available.into_iter().find_map(|provider| {
                let model = default_model(provider)?.id.clone();
                Some(ModelName { provider: provider.id.clone(), model })
            })
        })
    }

    /// Returns the model that does small things such as titles for conversations with `model`.
    #[must_use]
    pub fn small_model(&self, model: &ModelName) -> ModelName {
        if let Some(small) = self.small_model.as_deref().and_then(ModelName::parse) {
            return small;
        }
        let provider = self.providers.iter().find(|provider| provider.id == model.provider);
        provider.and_then(small_model).unwrap_or_else(|| model.clone())
    }

    /// Finds everything that a request to a model needs; `name` is `provider/model`.
    ///
    /// # Errors
    ///
    /// The model, its variant or its key does not exist, or the key may not be sent to its address.
    pub fn resolve_model(
        &self,
        name: &str,
        variant: Option<&str>,
    ) -> Result<ResolvedModel, ModelResolutionError> {
        let settings = SettingsReader::new(&self.layers, &self.merged);
        let enabled = ProviderSelection::read(&settings).unwrap_or_default();
        let resolver = ModelResolver {
            providers: &self.providers,
            disabled: &|id| !enabled.has(id),
            views: &self.views,
            auth: &self.auth,
            environment: &self.environment,
        };
        resolver.resolve(name, variant)
    }

    /// Returns the names of the variables that may hold keys: programs that an agent starts do not get them.
    #[must_use]
    pub fn key_variables(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.providers.iter().flat_map(|it| it.variables.iter().cloned()).collect();
        names.push("OPENCODE_AUTH_CONTENT".to_owned());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the keys of all providers, stored and configured, and what their headers hold: programs that an agent
    /// starts get no variable with such a value.
    #[must_use]
    pub fn key_values(&self) -> Vec<Secret> {
        let stored = self.auth.list().into_iter().filter_map(|entry| entry.key.clone());
        stored.chain(self.views.written_secrets()).collect()
    }

    /// Returns the merged settings with `{env:…}` and `{file:…}` as they are written. Secrets that were written
    /// into a file are in it: redact it before it is shown.
    #[must_use]
    pub const fn shown_settings(&self) -> &Map<String, Value> {
        &self.shown
    }

    /// Returns every source, the weakest first.
    #[must_use]
    pub fn files(&self) -> Vec<ConfigFileSummary> {
        let summary = |layer: &SettingsLayer| {
            let line = |key: &RestrictedKey| {
                let path: Vec<&str> = key.key.iter().map(String::as_str).collect();
                layer.find_line(&path)
            };
            ConfigFileSummary {
                path: layer.path.clone(),
                is_of_project: layer.origin == LayerOrigin::Project,
                is_trusted: layer.is_trusted,
                restricted: layer.restricted.iter().map(|key| (key.clone(), line(key))).collect(),
            }
        };
        self.layers.iter().map(summary).collect()
    }

    /// Adds the project's files that wait for it, exactly as they were read, to the files that the user trusts;
    /// returns them.
    pub fn trust_project_files(&self, trusted: &mut TrustedFiles) -> Vec<PathBuf> {
        let files = self.layers.iter().filter(|layer| !layer.restricted.is_empty());
        files
            .map(|layer| {
                trusted.add(&layer.path, layer.text());
                layer.path.clone()
            })
            .collect()
    }
}

fn merge_layers(
    layers: &[SettingsLayer],
    is_wanted: impl Fn(&SettingsLayer) -> bool,
    select: impl Fn(&SettingsLayer) -> &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = Map::new();
    for layer in layers.iter().filter(|layer| is_wanted(layer)) {
        merge_tables(&mut merged, select(layer).clone());
    }
    merged
}

/// Which providers are switched on.
#[derive(Default)]
struct ProviderSelection {
    enabled: Option<Vec<String>>,
    disabled: Vec<String>,
}

impl ProviderSelection {
    fn read(settings: &SettingsReader<'_>) -> Result<Self, ConfigError> {
        let enabled = settings.texts("enabled_providers")?;
        let is_set = settings.map().contains_key("enabled_providers");
        let disabled = settings.texts("disabled_providers")?;
        Ok(Self { enabled: is_set.then_some(enabled), disabled })
    }

    fn has(&self, id: &str) -> bool {
        let is_named = |list: &Vec<String>| list.iter().any(|known| known == id);
        self.enabled.as_ref().is_none_or(is_named) && !is_named(&self.disabled)
    }
}

/// Folds the older keys into those that replaced them: `mode` into `agent`, `tools` into `permission`.
fn merge_modes_and_tools(merged: &mut Map<String, Value>) {
    if let Some(Value::Object(modes)) = merged.get("mode").cloned() {
        let mut agents = Map::new();
        for (name, mut mode) in modes {
            if let Value::Object(fields) = &mut mode {
                fields.insert("mode".to_owned(), Value::from("primary"));
            }
            agents.insert(name, mode);
        }
        merge_tables(merged, Map::from_iter([("agent".to_owned(), Value::Object(agents))]));
    }
    if let Some(Value::Object(tools)) = merged.get("tools").cloned() {
        let mut table = Map::new();
        for (tool, is_on) in tools {
            let permission = match tool.as_str() {
                "write" | "edit" | "patch" | "multiedit" | "apply_patch" => "edit",
                other => other,
            };
            let action = if is_on == Value::Bool(true) { "allow" } else { "deny" };
            table.insert(permission.to_owned(), json!(action));
        }
        let mut below = Map::from_iter([("permission".to_owned(), Value::Object(table))]);
        if let Some(permission) = merged.shift_remove("permission") {
            merge_tables(&mut below, Map::from_iter([("permission".to_owned(), permission)]));
        }
        merged.extend(below);
    }
}

fn provider_error(
    layers: &[SettingsLayer],
    environment: &ConfigEnvironment,
    id: &str,
    wrong: &WrongField,
) -> ConfigError {
    let path: Vec<&str> =
        ["provider", id].into_iter().chain(wrong.path.iter().map(String::as_str)).collect();
    let message = format!("it must be {}", wrong.wanted);
    let key = Some(path.join("."));
    match layers.iter().rev().find(|layer| layer.has(&path)) {
        Some(layer) => {
            let line = layer.find_line(&path);
            ConfigError { line, key, ..ConfigError::new(&layer.path, message) }
        }
        None => ConfigError { key, ..ConfigError::new(&catalogue_path(environment), message) },
    }
}
