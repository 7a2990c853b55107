//! A prompt's way: stored, taken up by a model runner, waited for, answered.

use std::path::Path;

use axum::http::StatusCode;
use serde_json::{Number, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, Part, Session, SessionStatus, UserMessage, UserTime,
};
use turnstone_engine::{EngineError, Prompt, PromptOutcome, PromptRouting, PromptSubmission};
use turnstone_store::{Context, StoreError};

use super::agent_choice::choose_agent;
use super::answer::{fail_turn_without_runner, prompt_answer};
use super::duplicate_prompt::is_same_prompt;
use super::expand::{ExpandedPrompt, expand_parts};
use super::prompt_input::PromptInput;
use crate::app::AppState;
use crate::error::ApiError;
use crate::event::flush_streams;
use crate::project_directory::find_project_directory;
use crate::request_context::RetryAwareContext;
use crate::rule_setter::check_can_set_rules;
use crate::runner_registry::{has_runner, wait_for_turn_end, wake_runners};
use crate::wire_json::{MessageResponse, message_response};

/// A prompt that is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredPrompt {
    message: MessageId,
    /// False if no answer is wanted.
    expects_answer: bool,
}

/// Stores a prompt and waits for its answer; one that asks for none is answered by itself.
///
/// The wait goes on if the client goes away: a prompt is never forgotten half way.
pub(crate) async fn prompt_and_wait(
    app: &AppState,
    repeat: &RetryAwareContext,
    session: &SessionId,
    asked: PromptInput,
) -> Result<MessageResponse, ApiError> {
    let sent = store_prompt(app, repeat, session, asked).await?;
    let (app, ctx, session) = (app.clone(), repeat.0.without_preconditions(), session.clone());
    let waiting = tokio::spawn(async move { wait_for_answer(&app, &ctx, &session, &sent).await });
    waiting.await.map_err(|error| ApiError::unexpected(&error))?
}

/// Stores a prompt; events report its answer.
pub(crate) async fn prompt_in_background(
    app: &AppState,
    repeat: &RetryAwareContext,
    session: &SessionId,
    asked: PromptInput,
) -> Result<MessageId, ApiError> {
    let sent = store_prompt(app, repeat, session, asked).await?;
    let message = sent.message.clone();
    let (app, ctx, session) = (app.clone(), repeat.0.without_preconditions(), session.clone());
    tokio::spawn(async move {
        if wait_for_answer(&app, &ctx, &session, &sent).await.is_err() {
            tracing::warn!("a prompt of {session} was stored, and its answer could not be read");
        }
    });
    Ok(message)
}

async fn store_prompt(
    app: &AppState,
    repeat: &RetryAwareContext,
    session: &SessionId,
    asked: PromptInput,
) -> Result<StoredPrompt, ApiError> {
    let (repeat, session) = (repeat.clone(), session.clone());
    app.run_blocking(move |app| match find_earlier_prompt(app, &repeat, &session)? {
        Some(message) => Ok(StoredPrompt { message, expects_answer: !asked.no_reply }),
        None => store_new_prompt(app, &repeat.0, &session, &asked),
    })
    .await
}

/// Waits for the answer to a prompt that an earlier try of this request stored.
pub(crate) async fn wait_for_earlier_answer(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    message: MessageId,
) -> Result<MessageResponse, ApiError> {
    wait_for_answer(
        app,
        &ctx.without_preconditions(),
        session,
        &StoredPrompt { message, expects_answer: true },
    )
    .await
}

/// The prompt that an earlier try of this request stored before it was cut off (R43).
pub(crate) fn find_earlier_prompt(
    app: &AppState,
    RetryAwareContext(ctx, began): &RetryAwareContext,
    session: &SessionId,
) -> Result<Option<MessageId>, ApiError> {
    let Some(at) = *began else { return Ok(None) };
    let find =
        |r: &turnstone_store::ReadTx<'_>| r.prompts().first_since(session, at, ctx.actor.as_str());
    Ok(app.engine().store().read(ctx, find)?)
}

/// Waits until a prompt is dealt with, and reads the answer.
async fn wait_for_answer(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    sent: &StoredPrompt,
) -> Result<MessageResponse, ApiError> {
    if sent.expects_answer {
        let (at, id) = (ctx.clone(), session.clone());
        let take = move |app: &AppState| take_up_inbox(app, &at, &id);
        wait_for_turn_end(app, ctx, session, &sent.message, take).await?;
        flush_streams(app.hub()).await;
    }
    let (ctx, session, sent) = (ctx.clone(), session.clone(), sent.clone());
    app.run_blocking(move |app| match sent.expects_answer {
        true => prompt_answer(app, &ctx, &session, &sent.message),
        false => {
            let read = |r: &turnstone_store::ReadTx<'_>| r.messages().get(&session, &sent.message);
            let found = app.engine().store().read(&ctx, read)?;
            Ok(message_response(&found))
        }
    })
    .await
}

/// Makes sure that what waits in an inbox is taken up: by the runner of this process, or, without any runner, by an
/// answer that says so.
pub(crate) fn take_up_inbox(app: &AppState, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
    // Not part of a request: neither its preconditions nor its key apply.
    let ctx = &ctx.without_preconditions().at_time(app.now());
    let (session, status) = app
        .engine()
        .store()
        .read(ctx, |r| Ok((r.sessions().get(id)?, r.sessions().status(id)?)))?;
    if status != SessionStatus::Idle {
        return Ok(());
    }
    let directory = Path::new(&session.directory);
    if app.runners().in_process().is_some() {
        wake_runners(app, id, directory);
        return Ok(());
    }
    while !has_runner(app, directory) {
        match app.engine().turns().begin_next(ctx, id) {
            Ok(Some(turn)) => fail_turn_without_runner(app, ctx, &turn)?,
            Ok(None) | Err(EngineError::Store(StoreError::Busy(_))) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn store_new_prompt(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
    asked: &PromptInput,
) -> Result<StoredPrompt, ApiError> {
    let session = app.engine().store().read(ctx, |r| r.sessions().get(id))?;
    if let Some(sent) = find_duplicate(app, ctx, id, asked)? {
        return Ok(sent);
    }
    check_can_set_rules(app, ctx, Some(id), &asked.tool_rules())?;
    let place = find_project_directory(app, ctx, Path::new(&session.directory))?;
    app.watch_directory(Path::new(&session.directory));
    let choice = choose_agent(app, ctx, &session, place.as_ref(), &asked.requested_agent)?;
    let root = place.map_or_else(|| session.directory.clone().into(), |place| place.root);
    let ExpandedPrompt { parts, failures } = expand_parts(&root, &asked.parts);
    let message = build_message(app, ctx, id, asked, choice)?;
    let parts = build_parts(app, ctx, &message, parts)?;
    let message_id = message.id.clone();
    let new = PromptSubmission {
        prompt: Prompt { message, parts },
        rules: asked.tool_rules(),
        routing: prompt_destination(app, &session, asked),
    };
    let stored = match app.engine().turns().admit_prompt(ctx, &new) {
        // Another request used the same id first: it may have been the same prompt.
        Err(EngineError::Store(
            error @ (StoreError::Conflict { .. } | StoreError::WrongOwner { .. }),
        )) => {
            let repeat = find_duplicate(app, ctx, id, asked)?;
            return repeat.ok_or_else(|| match &asked.message {
                Some(_) => message_conflict(&message_id),
                // The message is new: it is one of its parts that is there already.
                None => error.into(),
            });
        }
        stored => stored?,
    };
    for why in failures {
        publish_failure(app, &session, &why);
    }
    match &stored {
        PromptOutcome::StoredOnly => {}
        PromptOutcome::TurnBegun(turn) => fail_turn_without_runner(app, ctx, turn)?,
        PromptOutcome::Admitted(_) => wake_runners(app, id, Path::new(&session.directory)),
    }
    Ok(StoredPrompt { message: message_id, expects_answer: !asked.no_reply })
}

/// Who is to answer: a runner if there is one; else the server, which can only say that there is none.
fn prompt_destination(app: &AppState, session: &Session, asked: &PromptInput) -> PromptRouting {
    let directory = Path::new(&session.directory);
    match asked.no_reply {
        true => PromptRouting::StoreOnly,
        false if has_runner(app, directory) => PromptRouting::Inbox(asked.delivery),
        false => PromptRouting::RunHere(asked.delivery),
    }
}

/// The prompt that has this id already, if it says the same.
fn find_duplicate(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    asked: &PromptInput,
) -> Result<Option<StoredPrompt>, ApiError> {
    let Some(message) = &asked.message else { return Ok(None) };
    match app.engine().store().read(ctx, |r| r.messages().get(session, message)) {
        Ok(found) if is_same_prompt(&found, asked) => {
            Ok(Some(StoredPrompt { message: message.clone(), expects_answer: !asked.no_reply }))
        }
        Ok(_) => Err(message_conflict(message)),
        Err(StoreError::NoMessage { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn build_message(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    asked: &PromptInput,
    choice: super::ChosenAgent,
) -> Result<Message, ApiError> {
    let id = match &asked.message {
        Some(id) => id.clone(),
        None => app.engine().turns().new_message_id(ctx, session)?,
    };
    let user = UserMessage {
        time: UserTime { created: Number::from(ctx.now.0), extra: ExtraFields::new() },
        format: asked.format.clone(),
        summary: None,
        agent: choice.agent,
        model: choice.model,
        system: asked.system.clone(),
        tools: asked.tools.clone(),
        extra: ExtraFields::new(),
    };
    Ok(Message { id, session: session.clone(), body: MessageBody::User(user) })
}

fn build_parts(
    app: &AppState,
    ctx: &Context,
    message: &Message,
    bodies: Vec<(Option<turnstone_core::id::PartId>, turnstone_core::model::PartBody)>,
) -> Result<Vec<Part>, ApiError> {
    let one = |(id, body)| {
        let id = match id {
            Some(id) => id,
            None => app.engine().turns().new_part_id(ctx)?,
        };
        let (session, message) = (message.session.clone(), message.id.clone());
        Ok(Part { id, session, message, body })
    };
    bodies.into_iter().map(one).collect()
}

/// Tells the clients of a session what could not be done; nothing of it is stored.
pub(crate) fn publish_failure(app: &AppState, session: &Session, message: &str) {
    let error = json!({ "name": "UnknownError", "data": { "message": message } });
    let said = json!({ "sessionID": session.id.as_str(), "error": error });
    app.hub().publish(&session.directory, "session.error", said);
}

/// The id was used for something else.
fn message_conflict(message: &MessageId) -> ApiError {
    let words = format!("message {message} is there already and says something else");
    ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &words)
        .with_field("messageID", message.as_str())
}
