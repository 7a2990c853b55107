//! Providers and models: those in the configuration, and no others.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::load::{OpenCodeConfig, invalid_config};
use crate::error::ApiError;

/// One provider of models. Holds secrets: never print it.
#[derive(Clone)]
pub(crate) struct ProviderConfig {
    /// What it is called by.
    pub(crate) id: String,
    fields: Map<String, Value>,
    /// Its models, by name.
    pub(crate) models: Vec<ModelConfig>,
}

/// One model.
#[derive(Clone)]
pub(crate) struct ModelConfig {
    /// What it is called by.
    pub(crate) id: String,
    fields: Map<String, Value>,
}

fn number_or_zero(fields: &Map<String, Value>, key: &str) -> Value {
    fields.get(key).filter(|value| value.is_number()).cloned().unwrap_or_else(|| Value::from(0))
}

fn table_or_empty(fields: &Map<String, Value>, key: &str) -> Map<String, Value> {
    fields.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn text_field<'f>(fields: &'f Map<String, Value>, key: &str) -> Option<&'f str> {
    fields.get(key).and_then(Value::as_str)
}

impl ModelConfig {
    fn name(&self) -> &str {
        text_field(&self.fields, "name").unwrap_or(&self.id)
    }

    fn has_flag(&self, key: &str) -> bool {
        self.fields.get(key) == Some(&Value::Bool(true))
    }

    fn status(&self) -> &str {
        match text_field(&self.fields, "status") {
            Some(known @ ("alpha" | "beta" | "deprecated")) => known,
            _ => "active",
        }
    }

    fn limit(&self) -> Value {
        let limit = table_or_empty(&self.fields, "limit");
        let mut shown = json!({ "context": number_or_zero(&limit, "context"), "output": number_or_zero(&limit, "output") });
        if limit.contains_key("input") {
            shown["input"] = number_or_zero(&limit, "input");
        }
        shown
    }

    fn cost(&self) -> Value {
        let cost = table_or_empty(&self.fields, "cost");
        json!({ "input": number_or_zero(&cost, "input"), "output": number_or_zero(&cost, "output"),
            "cache": { "read": number_or_zero(&cost, "cache_read"), "write": number_or_zero(&cost, "cache_write") } })
    }

    /// The kinds of content it takes or gives; text unless it says otherwise.
    fn modalities(&self, which: &str) -> Vec<String> {
        let listed = table_or_empty(&self.fields, "modalities")
            .get(which)
            .and_then(Value::as_array)
            .cloned();
        let listed = listed.unwrap_or_else(|| vec![Value::from("text")]);
        listed.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn to_json(&self, provider: &ProviderConfig) -> Value {
        let table = |which: &str| {
            let kinds = self.modalities(which);
            let has = |kind: &str| kinds.iter().any(|one| one == kind);
            json!({ "text": has("text"), "audio": has("audio"), "image": has("image"),
                "video": has("video"), "pdf": has("pdf") })
        };
        json!({
            "id": self.id, "providerID": provider.id, "name": self.name(),
            "api": { "id": text_field(&self.fields, "id").unwrap_or(&self.id), "url": "", "npm": provider.package() },
            "family": text_field(&self.fields, "family").unwrap_or_default(),
            "capabilities": {
                "temperature": self.has_flag("temperature"), "reasoning": self.has_flag("reasoning"),
                "attachment": self.has_flag("attachment"),
                "toolcall": self.fields.get("tool_call") != Some(&Value::Bool(false)),
                "input": table("input"), "output": table("output"), "interleaved": false },
            "cost": self.cost(), "limit": self.limit(), "status": self.status(),
            "options": table_or_empty(&self.fields, "options"), "headers": table_or_empty(&self.fields, "headers"),
            "release_date": text_field(&self.fields, "release_date").unwrap_or_default(),
            "variants": table_or_empty(&self.fields, "variants"),
        })
    }

    /// As `/api/model` lists it.
    fn to_v2_json(&self, provider: &ProviderConfig) -> Value {
        let mut api = provider.api();
        api["id"] = Value::from(text_field(&self.fields, "id").unwrap_or(&self.id));
        let mut shown = json!({
            "id": self.id, "providerID": provider.id, "name": self.name(), "api": api,
            "capabilities": { "tools": self.fields.get("tool_call") != Some(&Value::Bool(false)),
                "input": self.modalities("input"), "output": self.modalities("output") },
            "request": { "headers": {}, "body": {} }, "variants": [], "time": { "released": 0 },
            "cost": [self.cost()], "status": self.status(), "enabled": true, "limit": self.limit(),
        });
        if let Some(family) = text_field(&self.fields, "family") {
            shown["family"] = Value::from(family);
        }
        shown
    }
}

impl ProviderConfig {
    /// The providers that are configured, without those that are switched off.
    pub(crate) fn list(config: &OpenCodeConfig) -> Result<Vec<Self>, ApiError> {
        let names = |key: &str| config.merged.get(key).and_then(Value::as_array).cloned();
        let (enabled, disabled) = (names("enabled_providers"), names("disabled_providers"));
        let mut providers = Vec::new();
        for (id, value) in config.table("provider")? {
            let name = Value::from(id.as_str());
            let is_off = disabled.as_ref().is_some_and(|list| list.contains(&name));
            let is_left_out = enabled.as_ref().is_some_and(|list| !list.contains(&name));
            if !is_off && !is_left_out {
                providers.push(Self::parse(&id, &value)?);
            }
        }
        Ok(providers)
    }

    /// For each provider the model that is used unless another is named: its first.
    pub(crate) fn default_models(providers: &[Self]) -> Map<String, Value> {
        let first = |provider: &Self| {
            let model = provider.models.first()?;
            Some((provider.id.clone(), Value::from(model.id.as_str())))
        };
        providers.iter().filter_map(first).collect()
    }

    fn parse(id: &str, value: &Value) -> Result<Self, ApiError> {
        let wrong = |what: &str| invalid_config(Path::new(id), &format!("a provider needs {what}"));
        let fields = value.as_object().ok_or_else(|| wrong("a table"))?;
        let mut models = Vec::new();
        for (name, value) in table_or_empty(fields, "models") {
            let fields = value.as_object().ok_or_else(|| wrong("models that are tables"))?;
            models.push(ModelConfig { id: name, fields: fields.clone() });
        }
        Ok(Self { id: id.to_owned(), fields: fields.clone(), models })
    }

    fn name(&self) -> &str {
        text_field(&self.fields, "name").unwrap_or(&self.id)
    }

    fn package(&self) -> &str {
        text_field(&self.fields, "npm").unwrap_or("@ai-sdk/openai-compatible")
    }

    fn api(&self) -> Value {
        let options = table_or_empty(&self.fields, "options");
        let url =
            text_field(&options, "baseURL").or(text_field(&self.fields, "api")).unwrap_or_default();
        let mut settings = options.clone();
        settings.remove("baseURL");
        let mut api = json!({ "type": "aisdk", "package": self.package(), "url": url });
        if !settings.is_empty() {
            api["settings"] = Value::Object(settings);
        }
        api
    }

    /// As `/provider` and `/config/providers` list it.
    pub(crate) fn to_json(&self) -> Value {
        let models: Map<String, Value> =
            self.models.iter().map(|model| (model.id.clone(), model.to_json(self))).collect();
        let options = table_or_empty(&self.fields, "options");
        let env = self.fields.get("env").filter(|env| env.is_array());
        json!({ "id": self.id, "name": self.name(), "source": "config",
            "env": env.cloned().unwrap_or_else(|| json!([])), "options": options, "models": models })
    }

    /// As `/api/provider` lists it.
    pub(crate) fn to_v2_json(&self) -> Value {
        json!({ "id": self.id, "name": self.name(), "api": self.api(),
            "request": { "headers": {}, "body": {} } })
    }

    /// Its models as `/api/model` lists them.
    pub(crate) fn models_v2_json(&self) -> impl Iterator<Item = Value> + '_ {
        self.models.iter().map(|model| model.to_v2_json(self))
    }
}
