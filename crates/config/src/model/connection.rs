//! Where requests to a provider go, and which key goes there.
//!
//! A provider is looked at in three ways: with the whole configuration, with the user's part of it, and with the
//! project's part. If the whole leads to another address than the user's part, the project chose the address, and
//! then everything that is sent comes from the project: neither the user's keys nor the user's headers go there.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::auth_file::AuthFile;
use super::catalogue::{Catalogue, OWN_FILE};
use super::model_profile::{ModelFields, ModelProfile, WrongField};
use super::provider_profile::KeySource;
use crate::environment::ConfigEnvironment;
use crate::secret::Secret;
use crate::source::merge_tables;

/// A shorter word of a header is not taken for a key.
const MIN_KEY_LENGTH: usize = 8;

/// All providers in the three views.
pub(crate) struct ProviderViews {
    whole: Map<String, Value>,
    user: Map<String, Value>,
    project: Map<String, Value>,
}

/// One provider in one view.
#[derive(Clone, Copy)]
pub(super) struct ProviderView<'v>(pub(super) &'v Map<String, Value>);

/// A provider as requests to one model see it.
pub(super) struct Connection<'v> {
    pub(super) view: ProviderView<'v>,
    pub(super) address: Option<String>,
    pub(super) is_of_project: bool,
}

impl ProviderViews {
    /// Merges the catalogue with the settings of all sources, of the user, and of the project.
    pub(crate) fn new(
        catalogue: &Catalogue,
        [whole, user, project]: [&Map<String, Value>; 3],
    ) -> Self {
        let view = |settings: &Map<String, Value>| {
            let mut providers = catalogue.providers.clone();
            if let Some(Value::Object(configured)) = settings.get("provider") {
                for entry in configured {
                    merge_provider(&mut providers, entry);
                }
            }
            providers
        };
        Self { whole: view(whole), user: view(user), project: view(project) }
    }

    /// Returns the ids of all providers, those of the catalogue first.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.whole.keys().map(String::as_str)
    }

    pub(super) fn whole(&self, id: &str) -> Option<ProviderView<'_>> {
        Some(ProviderView(self.whole.get(id)?.as_object()?))
    }

    /// Returns the provider as requests to a model see it, or to none in particular.
    pub(super) fn connection(&self, id: &str, model: Option<&str>) -> Option<Connection<'_>> {
        let whole = ProviderView(self.whole.get(id)?.as_object()?);
        let address = whole.address(model);
        let user = self.user.get(id).and_then(Value::as_object).map(ProviderView);
        let by_user = user.and_then(|user| user.address(model));
        if address == by_user {
            return Some(Connection { view: whole, address, is_of_project: false });
        }
        let project = ProviderView(self.project.get(id)?.as_object()?);
        let address = project.address(model).or(address);
        Some(Connection { view: project, address, is_of_project: true })
    }

    /// Finds the key for a connection, and where it comes from.
    pub(super) fn find_key(
        &self,
        id: &str,
        connection: &Connection<'_>,
        auth: &AuthFile,
        environment: &ConfigEnvironment,
    ) -> Option<(Secret, KeySource)> {
        if let Some(key) = connection.view.own_key() {
            return Some((key, KeySource::Configuration));
        }
        if connection.is_of_project {
            return None;
        }
        self.find_users_key(id, auth, environment)
    }

    /// Returns the keys that the configuration holds, and the words in headers that are long enough for one.
    pub(crate) fn written_secrets(&self) -> Vec<Secret> {
        let mut secrets = Vec::new();
        for id in self.ids() {
            let Some(view) = self.whole(id) else { continue };
            secrets.extend(view.own_key());
            let of_models = view.models().unwrap_or_default().into_iter().flat_map(|it| it.headers);
            let headers = view.headers().unwrap_or_default().into_iter().chain(of_models);
            for (_, value) in headers {
                // A scheme before a key, such as `Bearer`, is a word of its own.
                let words = value.split_whitespace().filter(|word| word.len() >= MIN_KEY_LENGTH);
                secrets.extend(words.map(|word| Secret::new(word.to_owned())));
            }
        }
        secrets
    }

    /// The user's key of a provider, whatever address it would be sent to.
    pub(super) fn find_users_key(
        &self,
        id: &str,
        auth: &AuthFile,
        environment: &ConfigEnvironment,
    ) -> Option<(Secret, KeySource)> {
        let user = self.user.get(id).and_then(Value::as_object).map(ProviderView);
        if let Some(key) = user.and_then(ProviderView::own_key) {
            return Some((key, KeySource::Configuration));
        }
        if let Some(key) = auth.find_key(id) {
            return Some((key.clone(), KeySource::Stored));
        }
        // Only the user and the catalogue name variables: a project could name any secret.
        let names = user.map(ProviderView::variables).unwrap_or_default();
        names.into_iter().find_map(|name| {
            let key = environment.variable(&name)?.trim().to_owned();
            Some((Secret::new(key), KeySource::Variable(name)))
        })
    }
}

impl<'v> ProviderView<'v> {
    fn fields(self) -> ModelFields<'v> {
        ModelFields(self.0)
    }

    pub(super) fn text(self, path: &[&str]) -> Option<&'v str> {
        let (last, tables) = path.split_last()?;
        let mut table = self.0;
        for key in tables {
            table = table.get(*key)?.as_object()?;
        }
        table.get(*last)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns the address that the provider itself sets.
    pub(super) fn written_address(self) -> Option<&'v str> {
        self.text(&["options", "baseURL"]).or_else(|| self.text(&["api"]))
    }

    /// Returns the package that speaks the wire of its models.
    pub(super) fn package(self) -> &'v str {
        self.text(&["npm"]).unwrap_or("@ai-sdk/openai-compatible")
    }

    /// Returns the options of its connection.
    pub(super) fn options(self) -> Map<String, Value> {
        self.0.get("options").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    pub(super) fn variables(self) -> Vec<String> {
        let names = self.0.get("env").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn own_key(self) -> Option<Secret> {
        let key = self.text(&["options", "apiKey"])?.trim();
        (!key.is_empty()).then(|| Secret::new(key.to_owned()))
    }

    /// The address of requests, with `${VARIABLE}` in it as it is written; without a slash at its end.
    fn address(self, model: Option<&str>) -> Option<String> {
        let of_model = |key: &str| self.text(&["models", model?, "provider", key]);
        let package = of_model("npm").unwrap_or(self.package());
        let named = self.text(&["options", "baseURL"]);
        let named = named.or_else(|| of_model("api")).or_else(|| self.text(&["api"]));
        let address = named.or_else(|| usual_address(package))?;
        Some(address.trim_end_matches('/').to_owned())
    }

    pub(super) fn headers(self) -> Result<Vec<(String, String)>, WrongField> {
        self.fields().text_table(&["options", "headers"])
    }

    /// Lists its models; lists for people omit some of them.
    pub(super) fn models(self) -> Result<Vec<ModelProfile>, WrongField> {
        let names = |key: &str| self.fields().texts(&[key]);
        let (only, not) = (names("whitelist")?, names("blacklist")?.unwrap_or_default());
        let mut models = Vec::new();
        for (id, value) in self.fields().table(&["models"])? {
            let is_listed = only.as_ref().is_none_or(|only| only.contains(&id));
            if !is_listed || not.contains(&id) || value.is_null() {
                continue;
            }
            let at = |mut path: Vec<String>| {
                path.splice(0..0, ["models".to_owned(), id.clone()]);
                path
            };
            let Value::Object(fields) = &value else {
                return Err(WrongField { path: at(Vec::new()), wanted: "a table: { … }" });
            };
            let model = ModelProfile::parse(&id, &ModelFields(fields), self.package());
            models.push(model.map_err(|wrong| WrongField { path: at(wrong.path), ..wrong })?);
        }
        Ok(models)
    }
}

/// Merges a configured provider into the catalogue's. The prices of a model that is configured replace the whole
/// of the catalogue's: its tiers would not fit to them.
fn merge_provider(providers: &mut Map<String, Value>, (id, configured): (&String, &Value)) {
    let Value::Object(configured) = configured else {
        providers.insert(id.clone(), configured.clone());
        return;
    };
    let base = providers.entry(id.clone()).or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(base) = base else { return };
    let models = configured.get("models").and_then(Value::as_object);
    for (name, model) in models.into_iter().flatten() {
        let known = base.get_mut("models").and_then(|models| models.get_mut(name)?.as_object_mut());
        if let (Some(known), true) = (known, model.get("cost").is_some()) {
            known.shift_remove("cost");
        }
    }
    merge_tables(base, configured.clone());
}

/// The address of the service that a package is for.
fn usual_address(package: &str) -> Option<&'static str> {
    Some(match package {
        "@ai-sdk/anthropic" => "https://api.anthropic.com/v1",
        "@ai-sdk/openai" => "https://api.openai.com/v1",
        "@ai-sdk/google" => "https://generativelanguage.googleapis.com/v1beta",
        "@ai-sdk/groq" => "https://api.groq.com/openai/v1",
        "@ai-sdk/mistral" => "https://api.mistral.ai/v1",
        "@ai-sdk/xai" => "https://api.x.ai/v1",
        "@openrouter/ai-sdk-provider" => "https://openrouter.ai/api/v1",
        "@ai-sdk/deepinfra" => "https://api.deepinfra.com/v1/openai",
        "@ai-sdk/cerebras" => "https://api.cerebras.ai/v1",
        "@ai-sdk/togetherai" => "https://api.together.xyz/v1",
        "@ai-sdk/perplexity" => "https://api.perplexity.ai",
        "@ai-sdk/vercel" => "https://api.v0.dev/v1",
        _ => return None,
    })
}

/// Replaces `${VARIABLE}` in an address.
///
/// # Errors
///
/// The name of the variable that is not set.
pub(super) fn expand_address(
    address: &str,
    environment: &ConfigEnvironment,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(address.len());
    let mut rest = address;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        let value = environment.variable(name).ok_or_else(|| name.to_owned())?;
        expanded.push_str(before);
        expanded.push_str(value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The file that a mistake of the catalogue is reported at.
pub(crate) fn catalogue_path(environment: &ConfigEnvironment) -> PathBuf {
    let named = environment.variable("OPENCODE_MODELS_PATH").map(PathBuf::from);
    let usual = environment.config_folder().map(|folder| folder.join(OWN_FILE));
    named.or(usual).unwrap_or_else(|| PathBuf::from("models.json"))
}
