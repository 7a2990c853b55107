//! Compaction: a request that the agent, or an external runner, carries out.

use std::path::Path as Directory;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{CompactionPart, ExtraFields, PartBody};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::{PartInput, PromptInput, RequestedAgent, prompt_and_wait};
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::request_scope::SessionRequest;
use crate::runner_registry::has_runner;
use crate::session_revert::check_expected_seq;
use crate::wire_json::MessageResponse;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/summarize", post(summarize))
}

/// `POST /session/{sessionID}/summarize`
async fn summarize(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let model = (fields.require_text("providerID")?, fields.require_text("modelID")?);
    let auto = fields.flag("auto")?;
    compact(&app, &caller, &id, Some(model), auto).await?;
    Ok(Json(true))
}

/// Asks for a compaction and waits until it is dealt with; without a model, by that of the session.
///
/// One that fails leaves nothing behind: without a runner nothing is stored, and a request whose answer
/// is an error is removed again, with the answer.
pub(super) async fn compact(
    app: &AppState,
    repeat: &RetryAwareContext,
    id: &SessionId,
    model: Option<(String, String)>,
    auto: bool,
) -> Result<(), ApiError> {
    ensure_runner(app, &repeat.0, id).await?;
    let extra = ExtraFields::new();
    let compaction = CompactionPart { auto, overflow: None, tail_start: None, extra };
    // The agent that goes on afterwards is the one that answered last.
    let (read, name) = (repeat.0.clone(), id.clone());
    let next = app
        .run_blocking(move |app| Ok(app.engine().turns().find_next_agent(&read, &name)?))
        .await?;
    let parts = vec![PartInput::plain(PartBody::Compaction(compaction))];
    let agent = next.map(|next| next.agent);
    let asked = PromptInput {
        requested_agent: RequestedAgent { agent, model, variant: None },
        ..PromptInput::from_parts(parts)
    };
    let answer = prompt_and_wait(app, repeat, id, asked).await?;
    match answer.info.find("error") {
        None => Ok(()),
        Some(error) => {
            remove_failed_compaction(app, &repeat.0, id, &answer).await?;
            let reason = error.0["data"]["message"].as_str().unwrap_or("the model call failed");
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Err(ApiError::tagged(status, "CompactionError", &format!("not compacted: {reason}")))
        }
    }
}

/// Refuses a compaction that nobody would carry out.
async fn ensure_runner(app: &AppState, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
    let (read, name) = (ctx.clone(), id.clone());
    let has_runner = app.run_blocking(move |app| {
        check_expected_seq(app, &read, &name)?;
        let session = app.engine().store().read(&read, |r| r.sessions().get(&name))?;
        Ok(has_runner(app, Directory::new(&session.directory)))
    });
    if has_runner.await? {
        return Ok(());
    }
    let message = "This server runs without an agent, and no external runner is attached";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Err(ApiError::tagged(status, "ServiceUnavailableError", message)
        .with_field("service", "session.compact"))
}

/// Removes the messages of a compaction that failed: the request and its answer.
async fn remove_failed_compaction(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
    answer: &MessageResponse,
) -> Result<(), ApiError> {
    let read = |key: &str| answer.info.field(key).0.as_str().map(str::parse).transpose();
    let messages = [read("id"), read("parentID")].into_iter().collect::<Result<Vec<_>, _>>();
    let messages = messages.map_err(|error| ApiError::unexpected(&error))?;
    let messages: Vec<MessageId> = messages.into_iter().flatten().collect();
    let (ctx, id) = (ctx.clone(), id.clone());
    app.run_blocking(move |app| {
        Ok(app.engine().history().edits().discard_compaction(&ctx, &id, &messages)?)
    })
    .await
}
