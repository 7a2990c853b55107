//! Parts and messages, written and removed one by one.
//!
//! Each of these is one transaction: one that was begun was done, and doing it again is nothing.

use axum::extract::{Path, State};
use axum::routing::{delete, patch};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::permission::Gate;
use turnstone_core::wire::{self, Mode};
use turnstone_store::{Context, StoreError, Tx};

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::{Body, parse_id, told};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/message/{message}", delete(remove_message))
        .route("/session/{session}/message/{message}/part/{part}", patch(update).delete(remove))
}

/// The ids of a path to a part.
type Names = (SessionId, MessageId, PartId);

fn names((session, message, part): &(String, String, String)) -> Result<Names, ApiError> {
    Ok((
        session_id(session)?,
        parse_id("messageID", "msg", message)?,
        parse_id("partID", "prt", part)?,
    ))
}

/// `PATCH /session/{sessionID}/message/{messageID}/part/{partID}`
async fn update(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String, String)>,
    Body(fields): Body,
) -> Result<Json<Value>, ApiError> {
    let (session, message, id) = names(&path)?;
    let body = Value::Object(fields.rest());
    let shape = |_| ApiError::payload(format!("Expected Part, got {}", told(&body)));
    let part = wire::parse_part(body.clone(), Mode::Strict).map_err(shape)?;
    if (&part.session, &part.message, &part.id) != (&session, &message, &id) {
        return Err(ApiError::bare_bad_request());
    }
    app.blocking(move |app| {
        let store = app.engine().store();
        let known = match store.read(&ctx, |r| r.get_part(&session, &id)) {
            Ok(known) => Some(known),
            Err(StoreError::NoPart { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        // To write over a part is to delete what it was.
        if known.is_some_and(|known| known.body != part.body) {
            app.require_removal(&ctx, &session, id.as_str())?;
        }
        let written = part.clone();
        app.engine().store().write(&ctx, move |tx| tx.put_part(&written)).wait()?;
        Ok(Json(crate::show::part(&part)))
    })
    .await
}

/// `DELETE /session/{sessionID}/message/{messageID}/part/{partID}`
///
/// What is not there is as good as deleted, as OpenCode answers.
async fn remove(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String, String)>,
) -> Result<Json<bool>, ApiError> {
    let (session, message, id) = names(&path)?;
    app.blocking(move |app| {
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
            app.require_removal(&ctx, &session, id.as_str())?;
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
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path((session, message)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    let session = session_id(&session)?;
    let message: MessageId = parse_id("messageID", "msg", &message)?;
    app.blocking(move |app| {
        app.expected(&ctx, &session)?;
        app.idle(&ctx, &session)?;
        app.require_removal(&ctx, &session, message.as_str())?;
        let remove = move |tx: &Tx<'_>| match tx.remove_message(&session, &message) {
            Err(StoreError::NoMessage { .. }) => Ok(()),
            done => done,
        };
        app.engine().store().write(&ctx, remove).wait()?;
        Ok(Json(true))
    })
    .await
}

impl App {
    /// Lets the removal of a message or a part pass the gate that protects its session.
    fn require_removal(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &str,
    ) -> Result<(), ApiError> {
        let patterns = [session.to_string(), id.to_owned()];
        Ok(self.engine().require(ctx, session, Gate::Delete, &patterns)?)
    }
}
