//! Providers and models: those somebody configured, and no others.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::load::{Config, broken};
use crate::error::ApiError;

/// One provider of models. Holds secrets: never print it.
#[derive(Clone)]
pub(crate) struct Provider {
    /// What it is called by.
    pub(crate) id: String,
    fields: Map<String, Value>,
    /// Its models, by name.
    pub(crate) models: Vec<ModelEntry>,
}

/// One model.
#[derive(Clone)]
pub(crate) struct ModelEntry {
    /// What it is called by.
    pub(crate) id: String,
    fields: Map<String, Value>,
}

fn number(fields: &Map<String, Value>, key: &str) -> Value {
    fields.get(key).filter(|value| value.is_number()).cloned().unwrap_or_else(|| Value::from(0))
}

fn inner(fields: &Map<String, Value>, key: &str) -> Map<String, Value> {
    fields.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn text<'f>(fields: &'f Map<String, Value>, key: &str) -> Option<&'f str> {
    fields.get(key).and_then(Value::as_str)
}

impl ModelEntry {
    fn name(&self) -> &str {
        text(&self.fields, "name").unwrap_or(&self.id)
    }

    fn has(&self, key: &str) -> bool {
        self.fields.get(key) == Some(&Value::Bool(true))
    }

    fn status(&self) -> &str {
        match text(&self.fields, "status") {
            Some(known @ ("alpha" | "beta" | "deprecated")) => known,
            _ => "active",
        }
    }

    fn limit(&self) -> Value {
        let limit = inner(&self.fields, "limit");
        let mut shown =
            json!({ "context": number(&limit, "context"), "output": number(&limit, "output") });
        if limit.contains_key("input") {
            shown["input"] = number(&limit, "input");
        }
        shown
    }

    fn cost(&self) -> Value {
        let cost = inner(&self.fields, "cost");
        json!({ "input": number(&cost, "input"), "output": number(&cost, "output"),
            "cache": { "read": number(&cost, "cache_read"), "write": number(&cost, "cache_write") } })
    }

    /// The kinds of content it takes or gives; text unless it says otherwise.
    fn kinds(&self, which: &str) -> Vec<String> {
        let listed =
            inner(&self.fields, "modalities").get(which).and_then(Value::as_array).cloned();
        let listed = listed.unwrap_or_else(|| vec![Value::from("text")]);
        listed.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn shown(&self, provider: &Provider) -> Value {
        let table = |which: &str| {
            let kinds = self.kinds(which);
            let has = |kind: &str| kinds.iter().any(|one| one == kind);
            json!({ "text": has("text"), "audio": has("audio"), "image": has("image"),
                "video": has("video"), "pdf": has("pdf") })
        };
        json!({
            "id": self.id, "providerID": provider.id, "name": self.name(),
            "api": { "id": text(&self.fields, "id").unwrap_or(&self.id), "url": "", "npm": provider.package() },
            "family": text(&self.fields, "family").unwrap_or_default(),
            "capabilities": {
                "temperature": self.has("temperature"), "reasoning": self.has("reasoning"),
                "attachment": self.has("attachment"),
                "toolcall": self.fields.get("tool_call") != Some(&Value::Bool(false)),
                "input": table("input"), "output": table("output"), "interleaved": false },
            "cost": self.cost(), "limit": self.limit(), "status": self.status(),
            "options": inner(&self.fields, "options"), "headers": inner(&self.fields, "headers"),
            "release_date": text(&self.fields, "release_date").unwrap_or_default(),
            "variants": inner(&self.fields, "variants"),
        })
    }

    /// As `/api/model` lists it.
    fn shown_v2(&self, provider: &Provider) -> Value {
        let mut api = provider.api();
        api["id"] = Value::from(text(&self.fields, "id").unwrap_or(&self.id));
        let mut shown = json!({
            "id": self.id, "providerID": provider.id, "name": self.name(), "api": api,
            "capabilities": { "tools": self.fields.get("tool_call") != Some(&Value::Bool(false)),
                "input": self.kinds("input"), "output": self.kinds("output") },
            "request": { "headers": {}, "body": {} }, "variants": [], "time": { "released": 0 },
            "cost": [self.cost()], "status": self.status(), "enabled": true, "limit": self.limit(),
        });
        if let Some(family) = text(&self.fields, "family") {
            shown["family"] = Value::from(family);
        }
        shown
    }
}

impl Provider {
    fn read(id: &str, value: &Value) -> Result<Self, ApiError> {
        let wrong = |what: &str| broken(Path::new(id), &format!("a provider needs {what}"));
        let fields = value.as_object().ok_or_else(|| wrong("a table"))?;
        let mut models = Vec::new();
        for (name, value) in inner(fields, "models") {
            let fields = value.as_object().ok_or_else(|| wrong("models that are tables"))?;
            models.push(ModelEntry { id: name, fields: fields.clone() });
        }
        Ok(Self { id: id.to_owned(), fields: fields.clone(), models })
    }

    fn name(&self) -> &str {
        text(&self.fields, "name").unwrap_or(&self.id)
    }

    fn package(&self) -> &str {
        text(&self.fields, "npm").unwrap_or("@ai-sdk/openai-compatible")
    }

    fn api(&self) -> Value {
        let options = inner(&self.fields, "options");
        let url = text(&options, "baseURL").or(text(&self.fields, "api")).unwrap_or_default();
        let mut settings = options.clone();
        settings.remove("baseURL");
        let mut api = json!({ "type": "aisdk", "package": self.package(), "url": url });
        if !settings.is_empty() {
            api["settings"] = Value::Object(settings);
        }
        api
    }

    /// As `/provider` and `/config/providers` list it.
    pub(crate) fn shown(&self) -> Value {
        let models: Map<String, Value> =
            self.models.iter().map(|model| (model.id.clone(), model.shown(self))).collect();
        let options = inner(&self.fields, "options");
        let env = self.fields.get("env").filter(|env| env.is_array());
        json!({ "id": self.id, "name": self.name(), "source": "config",
            "env": env.cloned().unwrap_or_else(|| json!([])), "options": options, "models": models })
    }

    /// As `/api/provider` lists it.
    pub(crate) fn shown_v2(&self) -> Value {
        json!({ "id": self.id, "name": self.name(), "api": self.api(),
            "request": { "headers": {}, "body": {} } })
    }

    /// Its models as `/api/model` lists them.
    pub(crate) fn models_v2(&self) -> impl Iterator<Item = Value> + '_ {
        self.models.iter().map(|model| model.shown_v2(self))
    }
}

impl Config {
    /// The providers that are configured, without those that are switched off.
    pub(crate) fn providers(&self) -> Result<Vec<Provider>, ApiError> {
        let names = |key: &str| self.merged.get(key).and_then(Value::as_array).cloned();
        let (enabled, disabled) = (names("enabled_providers"), names("disabled_providers"));
        let mut providers = Vec::new();
        for (id, value) in self.table("provider")? {
            let name = Value::from(id.as_str());
            let is_off = disabled.as_ref().is_some_and(|list| list.contains(&name));
            let is_left_out = enabled.as_ref().is_some_and(|list| !list.contains(&name));
            if !is_off && !is_left_out {
                providers.push(Provider::read(&id, &value)?);
            }
        }
        Ok(providers)
    }

    /// For each provider the model that is used unless another is named: its first.
    pub(crate) fn default_models(&self) -> Result<Map<String, Value>, ApiError> {
        let providers = self.providers()?;
        let first = |provider: &Provider| {
            let model = provider.models.first()?;
            Some((provider.id.clone(), Value::from(model.id.as_str())))
        };
        Ok(providers.iter().filter_map(first).collect())
    }
}
