//! What an open step used so far: reported while it runs, or with the end of its turn.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::put;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use turnstone_core::id::MessageId;
use turnstone_core::model::TokenCounts;
use turnstone_engine::{StepUsage, Turn};
use turnstone_store::Context;

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::step::parse_step_path;
use super::turn::{check_answer_of_turn, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/step/{message}/usage", put(set_usage))
}

/// What a model call used so far; what is left out stays as it was.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepUsageRequest {
    /// What it cost.
    cost: Option<Number>,
    /// Its tokens.
    tokens: Option<TokenCounts>,
}

/// Stored.
#[derive(Serialize)]
struct StepUsageResponse {}

/// `PUT /turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/usage`
async fn set_usage(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<StepUsageRequest>,
) -> Result<SeqStamped<StepUsageResponse>, ApiError> {
    let (session, turn, message) = parse_step_path(&path)?;
    let usage = read_usage(body.cost, body.tokens)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        check_answer_of_turn(app, &ctx, held.turn(), &message)?;
        store_usage(app, &ctx, held.turn(), Some(&message), usage)?;
        stamp_seq(app, &ctx, &session, StepUsageResponse {})
    })
    .await
}

/// Nothing is paid back, and no token comes out of nowhere.
pub(super) fn read_usage(
    cost: Option<Number>,
    tokens: Option<TokenCounts>,
) -> Result<StepUsage, ApiError> {
    let mut counted: Vec<&Number> = cost.iter().collect();
    if let Some(TokenCounts { total, input, output, reasoning, cache, .. }) = &tokens {
        counted.extend([input, output, reasoning, &cache.read, &cache.write]);
        counted.extend(total);
    }
    let is_negative = |number: &&&Number| number.as_f64().is_none_or(|it| it < 0.0);
    if let Some(number) = counted.iter().find(is_negative) {
        let message = format!("Expected a value of 0 or more, got {number}");
        return Err(ApiError::invalid_payload(message));
    }
    Ok(StepUsage { cost, tokens })
}

/// Stores what the open step of an answer used.
pub(super) fn store_usage(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
    message: Option<&MessageId>,
    usage: StepUsage,
) -> Result<(), ApiError> {
    let steps = app.engine().turns().steps();
    let is_stored = match message {
        Some(message) => steps.report_usage(ctx, turn, message, usage)?,
        None => false,
    };
    match is_stored {
        true => Ok(()),
        false => {
            let message = "no model call is open that could have used this";
            Err(ApiError::tagged(StatusCode::CONFLICT, "ConflictError", message))
        }
    }
}
