//! Who answers: agent, model and variant of a prompt.

use serde_json::Value;
use turnstone_config::{AgentProfile, Configuration, ModelName};
use turnstone_core::model::{ExtraFields, ModelRef, Session};
use turnstone_core::redact::redact_text;
use turnstone_store::Context;

use crate::app::AppState;
use crate::configuration::{global_config, project_config};
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;

/// The word for no variant in a session.
const NO_VARIANT: &str = "default";

/// Who a client wants to answer; what it leaves out is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedAgent {
    /// The agent.
    pub(crate) agent: Option<String>,
    /// Provider and model.
    pub(crate) model: Option<(String, String)>,
    /// The variant of the model.
    pub(crate) variant: Option<String>,
}

/// Who answers.
#[derive(Clone, Debug)]
pub(crate) struct ChosenAgent {
    /// The agent.
    pub(crate) agent: String,
    /// The model.
    pub(crate) model: ModelRef,
}

/// Finds who answers a prompt: what is asked for, else the agent's model, else the session's,
/// else that of its newest prompt, else what is configured.
pub(crate) fn choose_agent(
    app: &AppState,
    ctx: &Context,
    session: &Session,
    place: Option<&ProjectDirectory>,
    wanted: &RequestedAgent,
) -> Result<ChosenAgent, ApiError> {
    let config = match place {
        Some(place) => project_config(app, place)?,
        None => global_config(app)?,
    };
    let agent = find_agent(config.agents(), wanted.agent.as_deref())?;
    let own = agent.model.clone().map(|ModelName { provider, model }| (provider, model));
    let (named, from_agent) = match (&wanted.model, &own) {
        (Some(model), own) => (Some(model.clone()), Some(model) == own.as_ref()),
        (None, Some(own)) => (Some(own.clone()), true),
        (None, None) => (None, false),
    };
    let variant = agent.variant.clone().filter(|_| from_agent);
    let variant = wanted.variant.clone().or(variant);
    let model = match named {
        Some((provider, model)) => model_ref(provider, model, variant),
        None => {
            let mut current = current_model(app, ctx, session, &config)?;
            current.variant = variant.or(current.variant);
            current
        }
    };
    Ok(ChosenAgent { agent: agent.name.clone(), model })
}

/// The model of a session when the request names none.
fn current_model(
    app: &AppState,
    ctx: &Context,
    session: &Session,
    config: &Configuration,
) -> Result<ModelRef, ApiError> {
    if let Some(model) = &session.model {
        let variant = model.variant.clone().filter(|variant| variant != NO_VARIANT);
        return Ok(model_ref(model.provider.clone(), model.id.clone(), variant));
    }
    if let Some(next) = app.engine().turns().find_next_agent(ctx, &session.id)? {
        return Ok(next.model);
    }
    // A message names a model; this one says that there is none.
    let none = || ModelName { provider: "turnstone".to_owned(), model: "none".to_owned() };
    let ModelName { provider, model } = config.default_model(None).unwrap_or_else(none);
    Ok(model_ref(provider, model, None))
}

fn model_ref(provider: String, model: String, variant: Option<String>) -> ModelRef {
    ModelRef { provider, model, variant, extra: ExtraFields::new() }
}

/// The agent of that name, or the first that people may choose.
fn find_agent<'a>(
    agents: &'a [AgentProfile],
    name: Option<&str>,
) -> Result<&'a AgentProfile, ApiError> {
    let found = match name {
        Some(name) => agents.iter().find(|agent| agent.name == name),
        None => agents.iter().find(|agent| agent.is_selectable()),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = agents
            .iter()
            .filter(|agent| !agent.is_hidden)
            .map(|agent| agent.name.as_str())
            .collect();
        let wanted = Value::from(name.unwrap_or("build"));
        let names = redact_text(&names.join(", "));
        ApiError::invalid_payload(format!(
            "Agent not found: {wanted}. Available agents: {names}\n  at [\"agent\"]"
        ))
    })
}
