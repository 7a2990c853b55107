//! Questions of a model to a person.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::QuestionId;
use turnstone_core::model::{RequestBody, RequestId, RequestState};
use turnstone_engine::{EngineError, PermissionError};
use turnstone_store::{Context, StoreError};

use super::permission::{pending_of_kind, wake_answered_session};
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, parse_path_id};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/question", pending_of_kind(|it| matches!(it, RequestBody::Question(_))))
        .route("/question/{request}/reply", post(reply))
        .route("/question/{request}/reject", post(reject))
}

/// `POST /question/{requestID}/reply`
pub(super) async fn reply(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(request): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let id: QuestionId = parse_path_id("requestID", "que", &request)?;
    let answers = fields.require::<Vec<Vec<String>>>("answers", "array")?;
    resolve_question(&app, ctx, id, RequestState::Answered { answers }).await
}

/// `POST /question/{requestID}/reject`
pub(super) async fn reject(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(request): Path<String>,
) -> Result<Json<bool>, ApiError> {
    let id: QuestionId = parse_path_id("requestID", "que", &request)?;
    resolve_question(&app, ctx, id, RequestState::Rejected).await
}

/// Records the answer; the first one counts.
async fn resolve_question(
    app: &AppState,
    ctx: Context,
    id: QuestionId,
    state: RequestState,
) -> Result<Json<bool>, ApiError> {
    app.run_blocking(move |app| {
        let pending = app.engine().permissions().pending(&ctx, None)?;
        let asked = pending.into_iter().find(|request| request.id.as_str() == id.as_str());
        let asked = asked.ok_or_else(|| unknown_question(&id))?;
        match app.engine().permissions().answer_question(
            &ctx,
            &RequestId::Question(id.clone()),
            state,
        ) {
            Ok(()) => {
                wake_answered_session(app, &ctx, &asked.session)?;
                Ok(Json(true))
            }
            Err(PermissionError::Engine(EngineError::Store(
                StoreError::NotFound { .. } | StoreError::Conflict { .. },
            ))) => Err(unknown_question(&id)),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

fn unknown_question(id: &QuestionId) -> ApiError {
    let message = format!("Question request not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "QuestionNotFoundError", &message)
        .with_field("requestID", id.as_str())
}
