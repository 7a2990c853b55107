//! Questions of a model to a person.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::QuestionId;
use turnstone_core::model::{RequestBody, RequestId, RequestState};
use turnstone_engine::{EngineError, PermissionError};
use turnstone_store::{Context, StoreError};

use super::permission::pending;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Body, parse_id};
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/question", get(list))
        .route("/question/{request}/reply", post(reply))
        .route("/question/{request}/reject", post(reject))
}

/// `GET /question`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let is_one = |body: &RequestBody| matches!(body, RequestBody::Question(_));
        Ok(Json(pending(app, &ctx, &asked, is_one)?))
    })
    .await
}

/// `POST /question/{requestID}/reply`
pub(super) async fn reply(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(request): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let id: QuestionId = parse_id("requestID", "que", &request)?;
    let answers = fields.need::<Vec<Vec<String>>>("answers", "array")?;
    settle(&app, ctx, id, RequestState::Answered { answers }).await
}

/// `POST /question/{requestID}/reject`
pub(super) async fn reject(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(request): Path<String>,
) -> Result<Json<bool>, ApiError> {
    let id: QuestionId = parse_id("requestID", "que", &request)?;
    settle(&app, ctx, id, RequestState::Rejected).await
}

/// Records the answer; the first one counts.
async fn settle(
    app: &App,
    ctx: Context,
    id: QuestionId,
    state: RequestState,
) -> Result<Json<bool>, ApiError> {
    app.blocking(move |app| {
        let pending = app.engine().pending_requests(&ctx, None)?;
        if !pending.iter().any(|request| request.id.as_str() == id.as_str()) {
            return Err(unknown(&id));
        }
        match app.engine().answer_question(&ctx, &RequestId::Question(id.clone()), state) {
            Ok(()) => {
                app.runners().stir();
                Ok(Json(true))
            }
            Err(PermissionError::Engine(EngineError::Store(
                StoreError::NotFound { .. } | StoreError::Conflict { .. },
            ))) => Err(unknown(&id)),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

fn unknown(id: &QuestionId) -> ApiError {
    let message = format!("Question request not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "QuestionNotFoundError", &message)
        .with("requestID", id.as_str())
}
