//! Subagents: a call that is answered by an agent in a session of its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Number, Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, ModelRef, Part, PartBody, SessionModel, TextPart, ToolState,
    UserMessage, UserTime,
};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    NewSession, Prompt, PromptOutcome, PromptRouting, PromptSubmission, Result, Turn,
};

use super::call_host::{CallHost, engine_failure};
use super::settings::RunAgent;
use super::turn_run::TurnConclusion;
use super::turn_shared::TurnShared;
use crate::tool::{SubagentOutcome, SubagentTask, ToolError, ToolHost};

/// How often a subagent that waits for a person is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs a subagent to its end and returns its last text.
///
/// # Errors
///
/// The agent does not exist or may not be called here, or it failed.
pub(crate) fn run_subagent(
    host: &CallHost,
    task: &SubagentTask,
) -> Result<SubagentOutcome, ToolError> {
    let shared = &host.shared;
    let settings = &shared.runner.settings;
    let limits = settings.limits(&shared.directory).map_err(|it| failed(&it.data))?;
    if shared.depth >= limits.subagent_depth {
        return Err(ToolError::failed("Subagents may not call subagents of their own here."));
    }
    let agent = settings.agent(&shared.directory, &task.agent).map_err(|it| failed(&it.data))?;
    if !agent.is_subagent {
        let text = format!("The agent {} cannot be called as a subagent.", agent.name);
        return Err(ToolError::failed(text));
    }
    let model = model_of(host, &agent);
    let earlier = find_earlier_child(host);
    let child = match &earlier {
        Some(child) => child.clone(),
        None => open_child(host, task, &agent, &model).map_err(engine_failure)?,
    };
    show_child(host, task, &child, &model);
    let Some(_occupied) = shared.runner.occupy(&child) else {
        return Err(ToolError::failed(format!("The session {child} is at work already.")));
    };
    let (engine, ctx) = (shared.runner.engine.clone(), shared.context());
    let aborted = child.clone();
    host.abort.on_request(move || {
        // The turn of the child ends by itself once the request is stored.
        drop(engine.turns().aborts().request(&ctx, &aborted));
    });
    let turn = match earlier {
        Some(_) => resume_child(host, &child)?,
        None => Some((begin_child(host, task, &child, (&agent, &model))?, false)),
    };
    let conclusion = match turn {
        Some((turn, is_resumed)) => run_child(shared, turn, is_resumed).map_err(engine_failure)?,
        None => TurnConclusion::Completed,
    };
    if host.abort.is_requested() {
        return Err(ToolError::Aborted);
    }
    let text = last_text(shared, &child).map_err(engine_failure)?;
    let model = format!("{}/{}", model.provider, model.model);
    match conclusion {
        TurnConclusion::Completed => Ok(SubagentOutcome { session: child, text, model }),
        TurnConclusion::Aborted => Err(ToolError::failed("The subagent was aborted.")),
        TurnConclusion::Lost => Err(ToolError::Aborted),
        TurnConclusion::Failed(failure) => Err(failed(&failure.data)),
    }
}

/// The agent's own model, else the one that makes the call.
fn model_of(host: &CallHost, agent: &RunAgent) -> ModelRef {
    let own = agent.model.clone();
    let calling = || {
        let (provider, model) = host.scope.model.split_once('/').unwrap_or_default();
        (provider.to_owned(), model.to_owned())
    };
    let variant = own.as_ref().and(agent.variant.clone());
    let (provider, model) = own.unwrap_or_else(calling);
    ModelRef { provider, model, variant, extra: ExtraFields::new() }
}

/// The child session of this very call, begun before its process died.
fn find_earlier_child(host: &CallHost) -> Option<SessionId> {
    if !host.shared.is_resumed {
        return None;
    }
    let (ctx, session) = (host.context(), &host.scope.session);
    let known =
        host.engine().store().read(&ctx, |r| r.messages().get_part(session, &host.id)).ok()?;
    let PartBody::Tool(tool) = known.body else { return None };
    let ToolState::Running { metadata: Some(metadata), .. } = tool.state else { return None };
    let id: SessionId = metadata.get("sessionId")?.as_str()?.parse().ok()?;
    is_child(host, &id).then_some(id)
}

fn is_child(host: &CallHost, child: &SessionId) -> bool {
    let found = host.engine().store().read(&host.context(), |r| r.sessions().find(child));
    matches!(found, Ok(Some(row)) if row.parent.as_ref() == Some(&host.scope.session))
}

/// The child session that the call names, else a new one.
fn open_child(
    host: &CallHost,
    task: &SubagentTask,
    agent: &RunAgent,
    model: &ModelRef,
) -> Result<SessionId> {
    let named = task.session.as_ref().and_then(|id| id.parse::<SessionId>().ok());
    if let Some(child) = named.filter(|id| is_child(host, id)) {
        return Ok(child);
    }
    let deny = |permission: &str| PermissionRule::new(permission, "*", RuleAction::Deny);
    let new = NewSession {
        title: Some(format!("{} (@{} subagent)", task.description, agent.name)),
        parent: Some(host.scope.session.clone()),
        agent: Some(agent.name.clone()),
        model: Some(SessionModel {
            id: model.model.clone(),
            provider: model.provider.clone(),
            variant: model.variant.clone(),
            extra: ExtraFields::new(),
        }),
        metadata: None,
        permission: Some(vec![deny("todowrite"), deny("task")]),
    };
    let created =
        host.engine().projects().create_session(&host.context(), &host.shared.directory, &new)?;
    Ok(created.id)
}

/// Shows the child with the call, so that clients can open it while it works.
fn show_child(host: &CallHost, task: &SubagentTask, child: &SessionId, model: &ModelRef) {
    let mut metadata = Map::new();
    metadata.insert("parentSessionId".to_owned(), json!(host.scope.session));
    metadata.insert("sessionId".to_owned(), json!(child));
    let model = json!({"providerID": model.provider, "modelID": model.model});
    metadata.insert("model".to_owned(), model);
    host.show(Some(task.description.clone()), metadata);
}

fn begin_child(
    host: &CallHost,
    task: &SubagentTask,
    child: &SessionId,
    (agent, model): (&RunAgent, &ModelRef),
) -> Result<Turn, ToolError> {
    let (engine, ctx) = (host.engine(), host.context());
    let id = engine.turns().new_message_id(&ctx, child).map_err(engine_failure)?;
    let user = UserMessage {
        time: UserTime { created: Number::from(ctx.now.0), extra: ExtraFields::new() },
        format: None,
        summary: None,
        agent: agent.name.clone(),
        model: model.clone(),
        system: None,
        tools: None,
        extra: ExtraFields::new(),
    };
    let part = Part {
        id: engine.turns().new_part_id(&ctx).map_err(engine_failure)?,
        session: child.clone(),
        message: id.clone(),
        body: PartBody::Text(TextPart { text: task.prompt.clone(), ..TextPart::default() }),
    };
    let message = Message { id, session: child.clone(), body: MessageBody::User(user) };
    let new = PromptSubmission {
        prompt: Prompt { message, parts: vec![part] },
        rules: Vec::new(),
        routing: PromptRouting::RunHere(turnstone_engine::PromptDelivery::Queue),
    };
    match engine.turns().admit_prompt(&ctx, &new).map_err(engine_failure)? {
        PromptOutcome::TurnBegun(turn) => Ok(turn),
        PromptOutcome::StoredOnly | PromptOutcome::Admitted(_) => {
            Err(ToolError::failed(format!("The session {child} is at work already.")))
        }
    }
}

/// Takes over the turn of a child whose process died while it waited for a person; `None` if the turn has ended.
fn resume_child(host: &CallHost, child: &SessionId) -> Result<Option<(Turn, bool)>, ToolError> {
    let gate = &host.shared.gate;
    gate.begin_wait(&host.context()).map_err(engine_failure)?;
    let resumed = loop {
        let resumed = host.engine().permissions().resume_turn(&host.context(), child);
        match resumed.map_err(engine_failure)? {
            Some(resumed) => break Some((resumed.turn, true)),
            None if !is_waiting(host, child).map_err(engine_failure)? => break None,
            None if host.abort.wait(POLL_INTERVAL) => return Err(ToolError::Aborted),
            None => {}
        }
    };
    gate.end_wait(&host.context()).map_err(engine_failure)?;
    Ok(resumed)
}

fn is_waiting(host: &CallHost, child: &SessionId) -> Result<bool> {
    let turns = host.engine().store().read(&host.context(), |r| r.turns().list(child))?;
    Ok(turns.iter().any(|turn| turn.state == TurnState::Waiting))
}

fn run_child(shared: &Arc<TurnShared>, turn: Turn, is_resumed: bool) -> Result<TurnConclusion> {
    let nested = shared.runner.share_nested_turn(turn, is_resumed, Some(shared))?;
    Ok(shared.runner.run_turn(nested))
}

/// The last text of the newest answer of a session.
fn last_text(shared: &TurnShared, child: &SessionId) -> Result<String> {
    let contexts = shared.engine().turns().contexts();
    let seen = contexts.model_context(&shared.context(), child)?;
    let answers = seen.iter().rev().filter(|it| matches!(it.0.body, MessageBody::Assistant(_)));
    let text = |part: &Part| {
        let PartBody::Text(text) = &part.body else { return None };
        (!text.text.is_empty()).then(|| text.text.clone())
    };
    Ok(answers
        .flat_map(|(_, parts)| parts.iter().rev().filter_map(text))
        .next()
        .unwrap_or_default())
}

fn failed(data: &Value) -> ToolError {
    let message = data.get("message").and_then(Value::as_str).unwrap_or("the subagent failed");
    ToolError::failed(message)
}
