//! The catalogue of models in the shape of models.dev: the shipped selection, and the user's own file.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::environment::ConfigEnvironment;
use crate::error::ConfigError;
use crate::source::{merge_tables, read_text_file};

/// The shipped selection. `docs/configuration.md` names its date and sources.
const SHIPPED: &str = include_str!("../../catalogue.json");

static SHIPPED_TABLE: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(SHIPPED).unwrap_or_default());

/// The user's own file next to the settings of Turnstone.
pub(super) const OWN_FILE: &str = "turnstone/models.json";

/// What is known about providers and models before any configuration.
pub(crate) struct Catalogue {
    /// By provider.
    pub(crate) providers: Map<String, Value>,
}

impl Catalogue {
    /// Reads the shipped selection, and the user's file on top: the one that `OPENCODE_MODELS_PATH` names, else
    /// `turnstone/models.json` in the configuration folder.
    ///
    /// # Errors
    ///
    /// The user's file cannot be read, is no JSON, or the file that the variable names does not exist.
    pub(crate) fn read(environment: &ConfigEnvironment) -> Result<Self, ConfigError> {
        let mut providers = SHIPPED_TABLE.clone();
        let named = environment.variable("OPENCODE_MODELS_PATH").map(PathBuf::from);
        let usual = environment.config_folder().map(|folder| folder.join(OWN_FILE));
        let Some(path) = named.as_ref().or(usual.as_ref()) else { return Ok(Self { providers }) };
        match (read_text_file(path)?, &named) {
            (Some(text), _) => merge_tables(&mut providers, parse(path, &text)?),
            (None, Some(_)) => return Err(ConfigError::new(path, "the file does not exist")),
            (None, None) => {}
        }
        Ok(Self { providers })
    }
}

fn parse(path: &Path, text: &str) -> Result<Map<String, Value>, ConfigError> {
    let table: Map<String, Value> = serde_json::from_str(text).map_err(|error| ConfigError {
        line: Some(error.line()),
        ..ConfigError::new(path, "it is not a JSON object in the shape of models.dev")
    })?;
    match table.iter().find(|(_, provider)| !provider.is_object()) {
        Some((id, _)) => {
            let error = ConfigError::new(path, "it must be a table: { … }");
            Err(ConfigError { key: Some(id.clone()), ..error })
        }
        None => Ok(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::model_profile::{ModelFields, ModelProfile};
    use crate::model::resolved_model::ModelWire;

    #[test]
    fn shipped_catalogue_is_whole() {
        let providers: Map<String, Value> = serde_json::from_str(SHIPPED).expect("JSON");
        for id in
            ["anthropic", "openai", "google", "openrouter", "groq", "deepseek", "mistral", "xai"]
        {
            assert!(providers.contains_key(id), "{id}");
        }
        for (id, provider) in &providers {
            let package = provider["npm"].as_str().expect("a package");
            assert!(ModelWire::of_package(package).is_some(), "{id}: {package}");
            assert!(provider["env"].as_array().is_some_and(|env| !env.is_empty()), "{id}");
            assert_eq!(provider["id"].as_str(), Some(id.as_str()));
            let models = provider["models"].as_object().expect("models");
            assert!(!models.is_empty(), "{id}");
            for (name, model) in models {
                let fields = ModelFields(model.as_object().expect("a model"));
                let model = ModelProfile::parse(name, &fields, package).expect(name);
                assert!(model.limits.context > 0 && model.limits.output > 0, "{name}");
                assert!(model.prices.base.input != Some(0.0), "{name}: an unknown price is absent");
                assert!(model.has_tools && model.release_date.is_some(), "{name}");
            }
        }
    }
}
