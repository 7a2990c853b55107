//! A model of the configuration, made ready to be asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turnstone_config::{
    InterleavedReasoning, ModelPrices, ModelTimeouts, ModelWire, ResolvedModel, UsedTokens,
};
use turnstone_core::model::ModelRef;

use super::directory_configuration::DirectoryConfiguration;
use super::provider_cache::ProviderCache;
use super::settings_failure::{no_model, unusable_model};
use crate::model::{ModelUsage, Provider};
use crate::run::{CostFunction, RunAgent, RunModel, SettingsFailure};
use crate::wire::{ProviderSettings, ProviderTimeouts, WireKind};

/// OpenAI begins to answer within this time or not at all.
const OPENAI_HEADER_TIMEOUT: Duration = Duration::from_secs(300);
/// The name that a prompt has if no model is configured.
const NO_MODEL: (&str, &str) = ("turnstone", "none");

/// Returns a model with its provider.
pub(super) fn set_up_model(
    place: &DirectoryConfiguration,
    providers: &ProviderCache,
    (name, agent): (&ModelRef, &RunAgent),
) -> Result<RunModel, SettingsFailure> {
    if (name.provider.as_str(), name.model.as_str()) == NO_MODEL {
        return Err(no_model());
    }
    let full_name = format!("{}/{}", name.provider, name.model);
    let resolved = place.configuration.resolve_model(&full_name, name.variant.as_deref());
    let resolved = resolved.map_err(|error| unusable_model(&name.provider, &error))?;
    let provider = connect(place, providers, &resolved)?;
    let profile = &resolved.profile;
    let configured = place.configuration.find_agent(&agent.name);
    let accepts = |kind: &str| profile.input.iter().any(|it| it == kind);
    Ok(RunModel {
        provider,
        name: name.clone(),
        wire_name: profile.api_id.clone(),
        limits: profile.limits,
        options: resolved.options(configured),
        temperature: agent.temperature.filter(|_| profile.has_temperature),
        top_p: agent.top_p.filter(|_| profile.has_temperature),
        media_in_results: resolved.wire != ModelWire::Chat,
        without_media: !accepts("image") && !accepts("pdf"),
        calls_tools: profile.has_tools,
        cost: cost_function(profile.prices.clone()),
    })
}

/// Returns the weakest variant of a model that thinks unless a variant says otherwise: for small tasks.
pub(super) fn weakest_variant(model: &ResolvedModel) -> Option<String> {
    let thinks = match model.wire {
        ModelWire::Responses => model.profile.options.contains_key("reasoningEffort"),
        ModelWire::Gemini => {
            let thinking = model.profile.options.get("thinkingConfig");
            thinking.is_some_and(|it| it.get("thinkingLevel").is_some())
        }
        ModelWire::Chat | ModelWire::Anthropic | ModelWire::Scripted => false,
    };
    let weakest = model.profile.variants.first().map(|(name, _)| name.clone());
    weakest.filter(|_| thinks)
}

fn connect(
    place: &DirectoryConfiguration,
    providers: &ProviderCache,
    model: &ResolvedModel,
) -> Result<Arc<dyn Provider>, SettingsFailure> {
    let wire = match model.wire {
        ModelWire::Chat => WireKind::ChatCompletions,
        ModelWire::Responses => WireKind::Responses,
        ModelWire::Anthropic => WireKind::AnthropicMessages,
        ModelWire::Gemini => WireKind::Gemini,
        ModelWire::Scripted => {
            let script = place.directory.join(Path::new(&model.name.model));
            return Ok(providers.script(&script)?);
        }
    };
    let provider = model.name.provider.as_str();
    let proxy = model.proxy.as_ref().map(|proxy| proxy.expose().to_owned());
    let client = providers.client_for(provider, proxy.as_deref())?;
    let headers = model.headers.iter();
    let settings = ProviderSettings {
        key: model.key.as_ref().map(|key| key.expose().to_owned()),
        headers: headers.map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        timeouts: provider_timeouts(provider, model.timeouts),
        extra_body: model.extra_body.clone(),
        sets_cache_key: model.sets_cache_key,
        reasoning_fields: reasoning_fields(model),
        ..ProviderSettings::new(provider, wire, &model.base_url)
    };
    Ok(settings.connect(client))
}

fn provider_timeouts(provider: &str, timeouts: ModelTimeouts) -> ProviderTimeouts {
    let usual = (provider == "openai").then_some(OPENAI_HEADER_TIMEOUT);
    ProviderTimeouts {
        headers: timeouts.header.or(usual),
        chunk: timeouts.chunk,
        total: timeouts.request,
    }
}

fn reasoning_fields(model: &ResolvedModel) -> BTreeMap<String, String> {
    match &model.profile.interleaved {
        InterleavedReasoning::Field(field) => {
            BTreeMap::from([(model.profile.api_id.clone(), field.clone())])
        }
        InterleavedReasoning::No | InterleavedReasoning::Usual => BTreeMap::new(),
    }
}

fn cost_function(prices: ModelPrices) -> CostFunction {
    Arc::new(move |usage: &ModelUsage| {
        prices.cost(&UsedTokens {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
        })
    })
}
