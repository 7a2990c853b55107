//! Who answers: agent, model and variant of a prompt.

use turnstone_agent::configuration::DirectoryConfiguration;
use turnstone_config::{AgentProfile, ModelName};
use turnstone_core::model::{ExtraFields, ModelRef, Session};
use turnstone_engine::Engine;
use turnstone_store::Context;

use super::run_args::RunArgs;
use crate::error::CliError;

/// The provider of messages that no model answers, such as those of `exec`.
const NO_PROVIDER: &str = "turnstone";
/// The word for no variant in a session.
const NO_VARIANT: &str = "default";

/// Who answers.
pub(super) struct AnsweringAgent {
    /// The agent.
    pub(super) agent: String,
    /// The model.
    pub(super) model: ModelRef,
}

/// Chooses the agent: the named one, else that of the session, else the default one; and the model: the named one,
/// else the agent's, else the session's, else the default one.
///
/// # Errors
///
/// There is no such agent, it is a subagent, or no model is configured.
pub(super) fn choose_agent(
    engine: &Engine,
    ctx: &Context,
    place: &DirectoryConfiguration,
    (session, recent): (Option<&Session>, Option<&Session>),
    args: &RunArgs,
) -> Result<AnsweringAgent, CliError> {
    let newest = match session {
        Some(session) => engine.turns().find_next_agent(ctx, &session.id)?,
        None => None,
    };
    let newest = newest.filter(|newest| newest.model.provider != NO_PROVIDER);
    let of_session = newest.as_ref().map(|newest| newest.agent.as_str());
    let agent = find_agent(place, args.agent.as_deref(), of_session)?;
    let own = agent.model.clone();
    let (model, variant) = match (&args.model, own, newest) {
        (Some(named), own, _) => {
            let named = parse_model(named)?;
            let variant = agent.variant.clone().filter(|_| own.as_ref() == Some(&named));
            (named, variant)
        }
        (None, Some(own), _) => (own, agent.variant.clone()),
        (None, None, Some(newest)) => {
            let ModelRef { provider, model, variant, .. } = newest.model;
            (ModelName { provider, model }, variant.filter(|it| it != NO_VARIANT))
        }
        (None, None, None) => (default_model(place, recent)?, None),
    };
    let variant = args.variant.clone().or(variant);
    let ModelName { provider, model } = model;
    let model = ModelRef { provider, model, variant, extra: ExtraFields::new() };
    Ok(AnsweringAgent { agent: agent.name.clone(), model })
}

fn parse_model(text: &str) -> Result<ModelName, CliError> {
    ModelName::parse(text).ok_or_else(|| CliError::Refused {
        what: format!("{text:?} is not the name of a model"),
        hint: Some("write PROVIDER/MODEL; `turnstone models` lists all models".to_owned()),
    })
}

fn default_model(
    place: &DirectoryConfiguration,
    recent: Option<&Session>,
) -> Result<ModelName, CliError> {
    let recent = recent.and_then(|session| session.model.as_ref());
    let recent =
        recent.map(|model| ModelName { provider: model.provider.clone(), model: model.id.clone() });
    let found = place.configuration.default_model(recent.as_ref());
    found.ok_or_else(|| CliError::Refused {
        what: "no model is configured".to_owned(),
        hint: Some(
            "store a key with `turnstone auth set PROVIDER`; `turnstone models` lists all models"
                .to_owned(),
        ),
    })
}

/// The named agent, else that of the session if it still exists, else the default one.
fn find_agent<'p>(
    place: &'p DirectoryConfiguration,
    named: Option<&str>,
    of_session: Option<&str>,
) -> Result<&'p AgentProfile, CliError> {
    let configuration = &place.configuration;
    let selectable = || configuration.agents().iter().filter(|agent| agent.is_selectable());
    if let Some(name) = named {
        let names: Vec<&str> = selectable().map(|agent| agent.name.as_str()).collect();
        let refused = |what: String| CliError::Refused {
            what,
            hint: Some(format!("agents that can be chosen: {}", names.join(", "))),
        };
        let found = configuration.find_agent(name);
        let found = found.ok_or_else(|| refused(format!("there is no agent {name:?}")))?;
        return match found.is_selectable() {
            true => Ok(found),
            false => Err(refused(format!("the agent {name:?} is called by other agents only"))),
        };
    }
    let known = of_session.and_then(|name| configuration.find_agent(name));
    let default = || configuration.find_agent(configuration.default_agent());
    let chosen = known.or_else(default).filter(|agent| agent.is_selectable());
    chosen.or_else(|| selectable().next()).ok_or_else(|| CliError::Refused {
        what: "the configuration has no agent that can be chosen".to_owned(),
        hint: Some("`turnstone config show` prints the agents".to_owned()),
    })
}
