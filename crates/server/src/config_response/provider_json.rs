//! Providers and models as clients see them.
//!
//! OpenCode's shapes have no word for a number that is not known: a price or a limit is zero there.

use serde_json::{Map, Value, json};
use turnstone_config::{
    Configuration, InterleavedReasoning, KeySource, ModelProfile, ModelStatus, ProviderProfile,
    TokenPrices,
};

/// A provider as `/provider` and `/config/providers` list it.
pub(crate) fn provider_json(provider: &ProviderProfile) -> Value {
    let models: Map<String, Value> = listed_models(provider)
        .map(|model| (model.id.clone(), model_json(provider, model)))
        .collect();
    let source = match &provider.key_source {
        _ if provider.is_configured => "config",
        Some(KeySource::Variable(_)) => "env",
        Some(KeySource::Stored) => "api",
        Some(KeySource::Configuration) | None => "custom",
    };
    json!({ "id": provider.id, "name": provider.name, "source": source, "env": provider.variables,
        "options": written_table(provider, &["options"]), "models": models })
}

/// A provider as `/api/provider` lists it.
pub(crate) fn provider_v2_json(provider: &ProviderProfile) -> Value {
    json!({ "id": provider.id, "name": provider.name, "api": connection_json(provider),
        "request": { "headers": {}, "body": {} } })
}

/// The models of a provider as `/api/model` lists them.
pub(crate) fn models_v2_json(provider: &ProviderProfile) -> impl Iterator<Item = Value> + '_ {
    listed_models(provider).map(|model| model_v2_json(provider, model))
}

/// For each provider the model that is used unless another is named.
pub(crate) fn default_models<'p>(
    config: &Configuration,
    providers: impl Iterator<Item = &'p ProviderProfile>,
) -> Map<String, Value> {
    let default = |provider: &ProviderProfile| {
        let model = config.default_model_of(provider)?;
        Some((provider.id.clone(), Value::from(model)))
    };
    providers.filter_map(default).collect()
}

/// Lists omit models that are withdrawn or early tests; they can be named.
fn listed_models(provider: &ProviderProfile) -> impl Iterator<Item = &ModelProfile> {
    let is_listed = |model: &&ModelProfile| {
        !matches!(model.status, ModelStatus::Alpha | ModelStatus::Deprecated)
    };
    provider.models.iter().filter(is_listed)
}

/// A table of the configuration as it is written.
fn written_table(provider: &ProviderProfile, path: &[&str]) -> Map<String, Value> {
    let mut table = &provider.written;
    for key in path {
        match table.get(*key).and_then(Value::as_object) {
            Some(inner) => table = inner,
            None => return Map::new(),
        }
    }
    table.clone()
}

fn connection_json(provider: &ProviderProfile) -> Value {
    let mut settings = written_table(provider, &["options"]);
    settings.shift_remove("baseURL");
    let url = provider.address.as_deref().unwrap_or_default();
    let mut api = json!({ "type": "aisdk", "package": provider.package, "url": url });
    if !settings.is_empty() {
        api["settings"] = Value::Object(settings);
    }
    api
}

fn limit_json(model: &ModelProfile) -> Value {
    let mut limit = json!({ "context": model.limits.context, "output": model.limits.output });
    if model.limits.input > 0 {
        limit["input"] = Value::from(model.limits.input);
    }
    limit
}

fn prices_json(prices: &TokenPrices) -> Value {
    // Whole prices are written as whole numbers, as the catalogue has them.
    let price = |price: Option<f64>| match price {
        Some(price) if price.fract() == 0.0 => Value::from(price as u64),
        Some(price) => Value::from(price),
        None => Value::from(0),
    };
    json!({ "input": price(prices.input), "output": price(prices.output),
        "cache": { "read": price(prices.cache_read), "write": price(prices.cache_write) } })
}

fn cost_json(model: &ModelProfile) -> Value {
    let mut cost = prices_json(&model.prices.base);
    let large = model.prices.tiers.iter().find(|tier| tier.above == 200_000);
    if let Some(tier) = large {
        cost["experimentalOver200K"] = prices_json(&tier.prices);
    }
    if !model.prices.tiers.is_empty() {
        let tier = |tier: &turnstone_config::PriceTier| {
            let mut prices = prices_json(&tier.prices);
            prices["tier"] = json!({ "type": "context", "size": tier.above });
            prices
        };
        cost["tiers"] = model.prices.tiers.iter().map(tier).collect();
    }
    cost
}

fn model_json(provider: &ProviderProfile, model: &ModelProfile) -> Value {
    let kinds = |kinds: &[String]| {
        let has = |kind: &str| kinds.iter().any(|one| one == kind);
        json!({ "text": has("text"), "audio": has("audio"), "image": has("image"),
            "video": has("video"), "pdf": has("pdf") })
    };
    let interleaved = match &model.interleaved {
        InterleavedReasoning::No => Value::Bool(false),
        InterleavedReasoning::Usual => Value::Bool(true),
        InterleavedReasoning::Field(field) => json!({ "field": field }),
    };
    let variants: Map<String, Value> = model
        .variants
        .iter()
        .map(|(name, options)| (name.clone(), Value::Object(options.clone())))
        .collect();
    // OpenCode shows `baseURL` among the options only.
    let url = match written_table(provider, &["options"]).contains_key("baseURL") {
        true => provider.written.get("api").and_then(Value::as_str),
        false => provider.address.as_deref(),
    };
    json!({
        "id": model.id, "providerID": provider.id, "name": model.name,
        "api": { "id": model.api_id, "url": url.unwrap_or_default(), "npm": model.package.as_deref().unwrap_or(&provider.package) },
        "family": model.family.as_deref().unwrap_or_default(),
        "capabilities": {
            "temperature": model.has_temperature, "reasoning": model.has_reasoning,
            "attachment": model.has_attachments, "toolcall": model.has_tools,
            "input": kinds(&model.input), "output": kinds(&model.output), "interleaved": interleaved },
        "cost": cost_json(model), "limit": limit_json(model), "status": model.status.as_str(),
        "options": written_table(provider, &["models", &model.id, "options"]),
        "headers": written_table(provider, &["models", &model.id, "headers"]),
        "release_date": model.release_date.as_deref().unwrap_or_default(),
        "variants": variants,
    })
}

fn model_v2_json(provider: &ProviderProfile, model: &ModelProfile) -> Value {
    let mut api = connection_json(provider);
    api["id"] = Value::from(model.api_id.as_str());
    let mut shown = json!({
        "id": model.id, "providerID": provider.id, "name": model.name, "api": api,
        "capabilities": { "tools": model.has_tools, "input": model.input, "output": model.output },
        "request": { "headers": {}, "body": {} }, "variants": [], "time": { "released": 0 },
        "cost": [prices_json(&model.prices.base)], "status": model.status.as_str(), "enabled": true,
        "limit": limit_json(model),
    });
    if let Some(family) = &model.family {
        shown["family"] = Value::from(family.as_str());
    }
    shown
}
