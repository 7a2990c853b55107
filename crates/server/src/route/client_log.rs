//! Lines a client wants in the log of the server.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::redact::redact_prose;

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::JsonBody;

/// The longest line that is kept.
const MAX_LINE_CHARS: usize = 1_024;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/log", post(write))
}

/// `POST /log`
async fn write(
    State(_app): State<AppState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let service = single_line(&fields.require_text("service")?);
    let level = fields.require_text("level")?;
    // The line may quote a configuration.
    let message = redact_prose(&single_line(&fields.require_text("message")?));
    // What else the client sends may hold anything, secrets too: it is checked and not kept.
    fields.object("extra")?;
    match level.as_str() {
        "debug" => tracing::debug!(service, "{message}"),
        "info" => tracing::info!(service, "{message}"),
        "warn" => tracing::warn!(service, "{message}"),
        "error" => tracing::error!(service, "{message}"),
        other => {
            let expected = "\"debug\" | \"info\" | \"error\" | \"warn\"";
            return Err(fields.invalid_field("level", expected, &other.into()));
        }
    }
    Ok(Json(true))
}

/// One line without control characters: a client cannot write lines of others.
fn single_line(text: &str) -> String {
    text.chars().take(MAX_LINE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
