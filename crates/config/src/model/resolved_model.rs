//! Everything that a request to a model needs.

use std::time::Duration;

use serde_json::{Map, Value};

use super::auth_file::AuthFile;
use super::connection::{Connection, ProviderViews, expand_address};
use super::model_name::ModelName;
use super::model_profile::ModelProfile;
use super::provider_profile::{KeySource, ProviderProfile};
use crate::agent::AgentProfile;
use crate::environment::ConfigEnvironment;
use crate::secret::Secret;
use crate::source::merge_tables;

/// The provider of scripted models: the model is the path of a script.
const SCRIPTED: &str = "scripted";

/// The protocol that a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelWire {
    /// OpenAI-compatible chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// A script instead of a model.
    Scripted,
}

impl ModelWire {
    /// Returns the wire of a package of the AI SDK; nothing if it is not supported.
    #[must_use]
    pub fn of_package(package: &str) -> Option<Self> {
        Some(match package {
            "@ai-sdk/openai-compatible"
            | "@openrouter/ai-sdk-provider"
            | "@ai-sdk/groq"
            | "@ai-sdk/deepinfra"
            | "@ai-sdk/cerebras"
            | "@ai-sdk/togetherai"
            | "@ai-sdk/mistral"
            | "@ai-sdk/xai"
            | "@ai-sdk/perplexity"
            | "@ai-sdk/vercel" => Self::Chat,
            "@ai-sdk/openai" | "@ai-sdk/azure" => Self::Responses,
            "@ai-sdk/anthropic" => Self::Anthropic,
            "@ai-sdk/google" => Self::Gemini,
            _ => return None,
        })
    }

    /// Returns its name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Scripted => "scripted",
        }
    }
}

/// How long requests may take; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTimeouts {
    /// The whole request.
    pub request: Option<Duration>,
    /// Until the head of the response arrives.
    pub header: Option<Duration>,
    /// Between two pieces of the response.
    pub chunk: Option<Duration>,
}

/// A model with everything that a request to it needs.
#[derive(Clone, Debug)]
pub struct ResolvedModel {
    /// The name by which it was chosen.
    pub name: ModelName,
    /// The protocol it speaks.
    pub wire: ModelWire,
    /// The package that the configuration names for the wire: services differ in small things.
    pub package: String,
    /// What requests begin with, version included: `https://api.anthropic.com/v1`. Empty for scripts.
    pub base_url: String,
    /// The key; nothing for services without one.
    pub key: Option<Secret>,
    /// Headers of every request; their values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// The proxy that the user names for this provider.
    pub proxy: Option<Secret>,
    /// How long requests may take.
    pub timeouts: ModelTimeouts,
    /// Fields that are added to the body of every request.
    pub extra_body: Map<String, Value>,
    /// True if requests name the session as the key of the prompt cache.
    pub sets_cache_key: bool,
    /// What is known about the model.
    pub profile: ModelProfile,
    /// The chosen variant.
    pub variant: Option<String>,
}

impl ResolvedModel {
    /// Returns the options of a request: those of the model, then of the agent, then of the variant.
    #[must_use]
    pub fn options(&self, agent: Option<&AgentProfile>) -> Map<String, Value> {
        let mut options = self.profile.options.clone();
        if let Some(agent) = agent {
            merge_tables(&mut options, agent.options.clone());
        }
        let variants = &self.profile.variants;
        let chosen = variants.iter().find(|(name, _)| Some(name) == self.variant.as_ref());
        if let Some((_, chosen)) = chosen {
            merge_tables(&mut options, chosen.clone());
        }
        options
    }

    /// Returns the model that a script plays.
    fn scripted(name: ModelName) -> Self {
        let profile = ModelProfile::scripted(&name.model);
        Self {
            wire: ModelWire::Scripted,
            package: SCRIPTED.to_owned(),
            base_url: String::new(),
            key: None,
            headers: Vec::new(),
            proxy: None,
            timeouts: ModelTimeouts::default(),
            extra_body: Map::new(),
            sets_cache_key: false,
            profile,
            variant: None,
            name,
        }
    }
}

/// Why a model cannot be used. The messages name no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelResolutionError {
    /// The name is not `provider/model`.
    #[error("{0:?} is not the name of a model; write provider/model")]
    InvalidName(String),
    /// No provider of this id.
    #[error("there is no provider {id:?}; known are {}", known.join(", "))]
    UnknownProvider {
        /// The provider.
        id: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// The configuration switches the provider off.
    #[error("the provider {0:?} is switched off in the configuration")]
    DisabledProvider(String),
    /// The provider has no such model.
    #[error("the provider {provider:?} has no model {model:?}{}", suggest(similar))]
    UnknownModel {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// Models with a similar name.
        similar: Vec<String>,
    },
    /// The model has no such variant.
    #[error("the model {model:?} has no variant {variant:?}; it has {}", list_or_none(known))]
    UnknownVariant {
        /// The model.
        model: String,
        /// The variant.
        variant: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// The provider's wire is not supported.
    #[error("models of {provider:?} are reached through {package:?}, which is not supported")]
    UnsupportedPackage {
        /// The provider.
        provider: String,
        /// The package.
        package: String,
    },
    /// No address is known.
    #[error("the provider {0:?} has no address; set provider.{0}.options.baseURL")]
    NoAddress(String),
    /// The address is none of HTTP.
    #[error("the address of the provider {0:?} must begin with https:// or http://")]
    InvalidAddress(String),
    /// A variable in the address is not set.
    #[error(
        "the address of the provider {provider:?} needs the variable {variable}, which is not set"
    )]
    MissingVariable {
        /// The provider.
        provider: String,
        /// The variable.
        variable: String,
    },
    /// There is no key.
    #[error(
        "there is no key for {provider:?}; run `turnstone auth set {provider}`{}",
        or_set(variables)
    )]
    NoKey {
        /// The provider.
        provider: String,
        /// The variables that may hold one.
        variables: Vec<String>,
    },
    /// The project chose the address, so the user's key is not sent there.
    #[error(
        "the project sends requests for {0:?} to an address of its own, and your key is not sent there; \
         put the address into your own configuration if it is right"
    )]
    KeyWithheld(String),
}

fn suggest(similar: &[String]) -> String {
    match similar.is_empty() {
        true => String::new(),
        false => format!("; similar: {}", similar.join(", ")),
    }
}

fn list_or_none(known: &[String]) -> String {
    match known.is_empty() {
        true => "none".to_owned(),
        false => known.join(", "),
    }
}

fn or_set(variables: &[String]) -> String {
    variables.first().map(|name| format!(" or set {name}")).unwrap_or_default()
}

/// What a model is resolved with.
pub(crate) struct ModelResolver<'c> {
    pub(crate) providers: &'c [ProviderProfile],
    pub(crate) disabled: &'c dyn Fn(&str) -> bool,
    pub(crate) views: &'c ProviderViews,
    pub(crate) auth: &'c AuthFile,
    pub(crate) environment: &'c ConfigEnvironment,
}

impl ModelResolver<'_> {
    /// Finds everything that a request to a model needs.
    pub(crate) fn resolve(
        &self,
        name: &str,
        variant: Option<&str>,
    ) -> Result<ResolvedModel, ModelResolutionError> {
        let invalid = || ModelResolutionError::InvalidName(name.to_owned());
        let name = ModelName::parse(name).ok_or_else(invalid)?;
        // A model that is configured under this name is what its user means.
        if name.provider == SCRIPTED && self.find(&name).is_err() {
            return Ok(ResolvedModel::scripted(name));
        }
        let (provider, profile) = self.find(&name)?;
        let variant = variant.filter(|variant| *variant != "default" && !variant.is_empty());
        if let Some(wanted) = variant {
            let known = || profile.variants.iter().map(|(name, _)| name.clone());
            if !known().any(|name| name == wanted) {
                let (model, variant) = (name.to_string(), wanted.to_owned());
                let known = known().collect();
                return Err(ModelResolutionError::UnknownVariant { model, variant, known });
            }
        }
        let package = profile.package.clone().unwrap_or_else(|| provider.package.clone());
        let wire = ModelWire::of_package(&package).ok_or_else(|| {
            let provider = provider.id.clone();
            ModelResolutionError::UnsupportedPackage { provider, package: package.clone() }
        })?;
        let connection = self.views.connection(&provider.id, Some(&name.model));
        let connection =
            connection.ok_or_else(|| ModelResolutionError::NoAddress(provider.id.clone()))?;
        let base_url = self.address(provider, &connection)?;
        let key = self.key(provider, &connection)?;
        let options = connection.view.options();
        // The types were checked when the providers were listed. What the user set for the model does not go to
        // an address that the project chose, so the model is looked up in the same view as the address.
        let mut headers = connection.view.headers().unwrap_or_default();
        let models = connection.view.models().unwrap_or_default();
        let profile = models.into_iter().find(|model| model.id == name.model);
        let profile =
            profile.ok_or_else(|| ModelResolutionError::KeyWithheld(provider.id.clone()))?;
        headers.extend(profile.headers.clone());
        let secret = |(name, value): (String, String)| (name, Secret::new(value));
        let text = |key: &str| options.get(key).and_then(Value::as_str);
        Ok(ResolvedModel {
            wire,
            package,
            base_url,
            key,
            headers: headers.into_iter().map(secret).collect(),
            proxy: text("proxy").map(|proxy| Secret::new(proxy.to_owned())),
            timeouts: read_timeouts(&options),
            extra_body: match options.get("extraBody") {
                Some(Value::Object(body)) => body.clone(),
                _ => Map::new(),
            },
            sets_cache_key: options.get("setCacheKey") == Some(&Value::Bool(true)),
            profile,
            variant: variant.map(str::to_owned),
            name,
        })
    }

    fn find(
        &self,
        name: &ModelName,
    ) -> Result<(&ProviderProfile, &ModelProfile), ModelResolutionError> {
        if (self.disabled)(&name.provider) {
            return Err(ModelResolutionError::DisabledProvider(name.provider.clone()));
        }
        let known = || self.providers.iter().map(|provider| provider.id.clone()).collect();
        let provider = self.providers.iter().find(|provider| provider.id == name.provider);
        let provider = provider.ok_or_else(|| ModelResolutionError::UnknownProvider {
            id: name.provider.clone(),
            known: known(),
        })?;
        let found = provider.models.iter().find(|model| model.id == name.model);
        let found = found.ok_or_else(|| ModelResolutionError::UnknownModel {
            provider: name.provider.clone(),
            model: name.model.clone(),
            similar: similar_models(provider, &name.model),
        })?;
        Ok((provider, found))
    }

    fn address(
        &self,
        provider: &ProviderProfile,
        connection: &Connection<'_>,
    ) -> Result<String, ModelResolutionError> {
        let id = || provider.id.clone();
        let written = connection.address.as_deref();
        let written = written.ok_or_else(|| ModelResolutionError::NoAddress(id()))?;
        let address = expand_address(written, self.environment).map_err(|variable| {
            ModelResolutionError::MissingVariable { provider: id(), variable }
        })?;
        let is_http = address.starts_with("https://") || address.starts_with("http://");
        if !is_http || address.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(ModelResolutionError::InvalidAddress(id()));
        }
        Ok(address)
    }

    fn key(
        &self,
        provider: &ProviderProfile,
        connection: &Connection<'_>,
    ) -> Result<Option<Secret>, ModelResolutionError> {
        let (id, auth, environment) = (&provider.id, self.auth, self.environment);
        if let Some((key, _)) = self.views.find_key(id, connection, auth, environment) {
            return Ok(Some(key));
        }
        if connection.is_of_project && self.has_users_key(id) {
            return Err(ModelResolutionError::KeyWithheld(id.clone()));
        }
        match provider.variables.is_empty() {
            // A service that names no variable may need no key, such as one on this machine.
            true => Ok(None),
            false => Err(ModelResolutionError::NoKey {
                provider: id.clone(),
                variables: provider.variables.clone(),
            }),
        }
    }

    fn has_users_key(&self, id: &str) -> bool {
        let found: Option<(Secret, KeySource)> =
            self.views.find_users_key(id, self.auth, self.environment);
        found.is_some()
    }
}

/// Milliseconds; `false` and zero are no limit.
fn read_timeouts(options: &Map<String, Value>) -> ModelTimeouts {
    let limit = |key: &str| {
        let millis = options.get(key).and_then(Value::as_u64).filter(|millis| *millis > 0);
        millis.map(Duration::from_millis)
    };
    ModelTimeouts {
        request: limit("timeout"),
        header: limit("headerTimeout"),
        chunk: limit("chunkTimeout"),
    }
}

/// Up to five models whose names share a part with the wanted one.
fn similar_models(provider: &ProviderProfile, wanted: &str) -> Vec<String> {
    let parts = |id: &str| -> Vec<String> {
        let parts = id.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| part.len() > 1);
        parts.map(str::to_ascii_lowercase).collect()
    };
    let wanted = parts(wanted);
    let shared = |id: &str| parts(id).iter().filter(|part| wanted.contains(part)).count();
    let mut models: Vec<(usize, &str)> =
        provider.models.iter().map(|model| (shared(&model.id), model.id.as_str())).collect();
    models.retain(|(shared, _)| *shared > 0);
    models.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    models.into_iter().take(5).map(|(_, id)| id.to_owned()).collect()
}
