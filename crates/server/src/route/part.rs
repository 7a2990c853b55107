//! Parts and messages, written and removed one by one.
//!
//! Each of these is one transaction: one that was begun was done, and doing it again is nothing.

use axum::extract::{Path, State};
use axum::routing::{delete, patch};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::permission::GatedOperation;
use turnstone_core::wire::{self, ParseMode};
use turnstone_store::{Context, StoreError, Tx};

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, parse_path_id, quote_value};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message/{message}", delete(remove_message))
        .route("/session/{session}/message/{message}/part/{part}", patch(update).delete(remove))
}

/// The ids of a path to a part.
type PartPathIds = (SessionId, MessageId, PartId);

fn parse_part_path(
    (session, message, part): &(String, String, String),
) -> Result<PartPathIds, ApiError> {
    Ok((
        session_id(session)?,
        parse_path_id("messageID", "msg", message)?,
        parse_path_id("partID", "prt", part)?,
    ))
}

/// `PATCH /session/{sessionID}/message/{messageID}/part/{partID}`
async fn update(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let (session, message, id) = parse_part_path(&path)?;
    let body = Value::Object(fields.into_map());
    let shape = |_| ApiError::invalid_payload(format!("Expected Part, got {}", quote_value(&body)));
    let part = wire::parse_part(body.clone(), ParseMode::Strict).map_err(shape)?;
    if (&part.session, &part.message, &part.id) != (&session, &message, &id) {
        return Err(ApiError::bare_bad_request());
    }
    app.run_blocking(move |app| {
        let store = app.engine().store();
        let known = match store.read(&ctx, |r| r.get_part(&session, &id)) {
            Ok(known) => Some(known),
            Err(StoreError::NoPart { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        // To write over a part is to delete what it was.
        let ctx = match known.is_some_and(|known| known.body != part.body) {
            true => app.require_removal(&ctx, &session, id.as_str())?,
            false => ctx,
        };
        let written = part.clone();
        app.engine().store().write(&ctx, move |tx| tx.put_part(&written)).wait()?;
        Ok(Json(crate::wire_json::part_json(&part)))
    })
    .await
}

/// `DELETE /session/{sessionID}/message/{messageID}/part/{partID}`
///
/// What is not there is as good as deleted, as OpenCode answers.
async fn remove(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
) -> Result<Json<bool>, ApiError> {
    let (session, message, id) = parse_part_path(&path)?;
    app.run_blocking(move |app| {
        let store = app.engine().store();
        let is_there = store.read(&ctx, |r| {
            r.get_session(&session)?;
            match r.get_part(&session, &id) {
                Ok(part) => Ok(part.message == message),
                Err(StoreError::NoPart { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        if is_there {
            let ctx = app.require_removal(&ctx, &session, id.as_str())?;
            let remove = move |tx: &Tx<'_>| match tx.remove_part(&session, &id) {
                Err(StoreError::NoPart { .. }) => Ok(()),
                done => done,
            };
            store.write(&ctx, remove).wait()?;
        }
        Ok(Json(true))
    })
    .await
}

/// `DELETE /session/{sessionID}/message/{messageID}`
async fn remove_message(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path((session, message)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    let session = session_id(&session)?;
    let message: MessageId = parse_path_id("messageID", "msg", &message)?;
    app.run_blocking(move |app| {
        app.check_expected_seq(&ctx, &session)?;
        app.check_idle(&ctx, &session)?;
        let ctx = app.require_removal(&ctx, &session, message.as_str())?;
        let remove = move |tx: &Tx<'_>| match tx.remove_message(&session, &message) {
            Err(StoreError::NoMessage { .. }) => Ok(()),
            done => done,
        };
        app.engine().store().write(&ctx, remove).wait()?;
        Ok(Json(true))
    })
    .await
}

impl AppState {
    /// Lets the removal of a message or a part pass the gate that protects its session; returns the context
    /// to remove it with.
    fn require_removal(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &str,
    ) -> Result<Context, ApiError> {
        let patterns = [session.to_string(), id.to_owned()];
        Ok(self.engine().require_permission(ctx, session, GatedOperation::Delete, &patterns)?)
    }
}
