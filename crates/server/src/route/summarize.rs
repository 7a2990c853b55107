//! Compaction: a request that a runner carries out.

use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::SessionId;
use turnstone_core::model::{CompactionPart, ExtraFields, PartBody};

use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::{PartInput, PromptInput, RequestedAgent, prompt_and_wait};
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::request_scope::SessionRequest;

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
pub(super) async fn compact(
    app: &AppState,
    repeat: &RetryAwareContext,
    id: &SessionId,
    model: Option<(String, String)>,
    auto: bool,
) -> Result<(), ApiError> {
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
    prompt_and_wait(app, repeat, id, asked).await?;
    Ok(())
}
