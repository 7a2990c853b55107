//! What is known about a provider: for lists, not for requests.

use serde_json::{Map, Value};

use super::auth_file::AuthFile;
use super::connection::{ProviderView, ProviderViews};
use super::model_profile::{ModelProfile, WrongField};
use crate::environment::ConfigEnvironment;

/// Where the key of a provider comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `apiKey` in the configuration.
    Configuration,
    /// The stored keys.
    Stored,
    /// An environment variable.
    Variable(String),
}

/// A provider of models.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderProfile {
    /// The id by which it is chosen.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The package that speaks the wire of its models.
    pub package: String,
    /// The environment variables that may hold its key.
    pub variables: Vec<String>,
    /// The address of its requests, as it is configured.
    pub address: Option<String>,
    /// Where its key comes from; nothing if there is none.
    pub key_source: Option<KeySource>,
    /// True if the configuration has an entry for it.
    pub is_configured: bool,
    /// What the configuration sets for it, as it is written. Redact it before it is shown.
    pub written: Map<String, Value>,
    /// Its models.
    pub models: Vec<ModelProfile>,
}

impl ProviderProfile {
    /// True if it can be used: it has a key or is configured.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.is_configured || self.key_source.is_some()
    }

    /// Lists all providers, those of the catalogue first, without those that are switched off.
    pub(crate) fn list(
        views: &ProviderViews,
        shown: &Map<String, Value>,
        is_enabled: impl Fn(&str) -> bool,
        auth: &AuthFile,
        environment: &ConfigEnvironment,
    ) -> Result<Vec<Self>, (String, WrongField)> {
        let mut providers = Vec::new();
        for id in views.ids().filter(|id| is_enabled(id)) {
            let wrong = |path: Vec<String>| WrongField { path, wanted: "a table: { … }" };
            let view = views.whole(id).ok_or_else(|| (id.to_owned(), wrong(Vec::new())))?;
            let connection = views.connection(id, None);
            let models = view.models().map_err(|wrong| (id.to_owned(), wrong))?;
            view.headers().map_err(|wrong| (id.to_owned(), wrong))?;
            let key = connection
                .as_ref()
                .and_then(|connection| views.find_key(id, connection, auth, environment));
            let shown = shown.get(id).and_then(Value::as_object);
            let written = shown.map(ProviderView);
            let address = match written.and_then(ProviderView::written_address) {
                Some(address) => Some(address.to_owned()),
                None => connection.and_then(|connection| connection.address),
            };
            providers.push(Self {
                id: id.to_owned(),
                name: view.text(&["name"]).unwrap_or(id).to_owned(),
                package: view.package().to_owned(),
                variables: view.variables(),
                address,
                key_source: key.map(|(_, source)| source),
                is_configured: shown.is_some(),
                written: shown.cloned().unwrap_or_default(),
                models,
            });
        }
        Ok(providers)
    }
}
