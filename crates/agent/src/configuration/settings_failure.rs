//! What a person reads if the configuration gives no agent or model: what is wrong, and what to do.

use std::path::Path;

use serde_json::json;
use turnstone_config::{ConfigError, ModelResolutionError};
use turnstone_core::model::{MessageFailure, MessageFailureKind};

use crate::run::SettingsFailure;

/// The configuration has a mistake.
pub(super) fn broken_configuration(error: &ConfigError) -> SettingsFailure {
    unknown(&format!("{error}. Run `turnstone config check` after you have corrected it."))
}

/// The directory of a session cannot be opened.
pub(super) fn missing_directory(directory: &Path, reason: &str) -> SettingsFailure {
    unknown(&format!("The directory {} cannot be opened: {reason}", directory.display()))
}

/// No agent has this name.
pub(super) fn missing_agent(name: &str, known: &[&str]) -> SettingsFailure {
    unknown(&format!("There is no agent {name:?}. Agents: {}", known.join(", ")))
}

/// A script cannot be played.
pub(super) fn unusable_script(path: &Path, reason: &str) -> SettingsFailure {
    unknown(&format!("The script {} cannot be used: {reason}", path.display()))
}

/// A proxy of the configuration cannot be used.
pub(super) fn unusable_proxy(provider: &str, reason: &str) -> SettingsFailure {
    unknown(&format!(
        "The proxy of the provider {provider:?} cannot be used: {reason}. \
         Correct `provider.{provider}.options.proxy`."
    ))
}

/// No model was chosen and none is configured.
pub(super) fn no_model() -> SettingsFailure {
    unknown(
        "No model is configured. Store a key with `turnstone auth set PROVIDER`, or set \"model\" in your \
         configuration; `turnstone models` lists all models.",
    )
}

/// A model cannot be used.
pub(super) fn unusable_model(provider: &str, error: &ModelResolutionError) -> SettingsFailure {
    let text = model_failure_text(error);
    let is_about_key =
        matches!(error, ModelResolutionError::NoKey { .. } | ModelResolutionError::KeyWithheld(_));
    if !is_about_key {
        return unknown(&text);
    }
    let mut failure = MessageFailure::new(MessageFailureKind::ProviderAuthError, &text);
    failure.data["providerID"] = json!(provider);
    Box::new(failure)
}

/// Returns why a model cannot be used, and what to do about it, in one sentence.
#[must_use]
pub fn model_failure_text(error: &ModelResolutionError) -> String {
    match error {
        ModelResolutionError::UnknownProvider { .. }
        | ModelResolutionError::UnknownModel { .. } => {
            format!("{error}; `turnstone models` lists all that can be used")
        }
        ModelResolutionError::DisabledProvider(provider) => {
            format!(
                "{error}; see disabled_providers and enabled_providers, or choose another than {provider}"
            )
        }
        ModelResolutionError::UnsupportedPackage { .. } => {
            format!("{error}; `@ai-sdk/openai-compatible` reaches most services")
        }
        ModelResolutionError::InvalidAddress(provider) => {
            format!("{error}; correct provider.{provider}.options.baseURL")
        }
        ModelResolutionError::MissingVariable { variable, .. } => {
            format!("{error}; set {variable}")
        }
        ModelResolutionError::InvalidName(_)
        | ModelResolutionError::UnknownVariant { .. }
        | ModelResolutionError::NoAddress(_)
        | ModelResolutionError::NoKey { .. }
        | ModelResolutionError::KeyWithheld(_) => error.to_string(),
    }
}

fn unknown(text: &str) -> SettingsFailure {
    Box::new(MessageFailure::new(MessageFailureKind::UnknownError, text))
}
