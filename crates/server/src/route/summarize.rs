//! Compaction: a request that a runner carries out.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Compaction, Extra, PartBody};

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::Body;
use crate::prompt::{PartInput, PromptInput, Wanted};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/summarize", post(summarize))
}

/// `POST /session/{sessionID}/summarize`
async fn summarize(
    State(app): State<App>,
    repeat: Repeat,
    Path(session): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let id = session_id(&session)?;
    let model = (fields.need_text("providerID")?, fields.need_text("modelID")?);
    let auto = fields.flag("auto")?;
    compact(&app, &repeat, &id, Some(model), auto).await?;
    Ok(Json(true))
}

/// Asks for a compaction and waits until it is dealt with; without a model, by that of the session.
pub(super) async fn compact(
    app: &App,
    repeat: &Repeat,
    id: &SessionId,
    model: Option<(String, String)>,
    auto: bool,
) -> Result<(), ApiError> {
    let extra = Extra::new();
    let compaction = Compaction { auto, overflow: None, tail_start: None, extra };
    // The agent that goes on afterwards is the one that answered last.
    let (read, name) = (repeat.0.clone(), id.clone());
    let next = app.blocking(move |app| Ok(app.engine().next_agent(&read, &name)?)).await?;
    let parts = vec![PartInput::plain(PartBody::Compaction(compaction))];
    let agent = next.map(|next| next.agent);
    let asked =
        PromptInput { wanted: Wanted { agent, model, variant: None }, ..PromptInput::of(parts) };
    app.prompt(repeat, id, asked).await?;
    Ok(())
}
