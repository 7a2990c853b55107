//! Errors with tags: what the older routes say, in the words of the newer ones.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// Says an error of any route of this surface with its tag.
pub(super) async fn translate(request: Request, next: Next) -> Response {
    let session = session_of(request.uri().path()).map(str::to_owned);
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<ApiError>() {
        Some(error) => tagged(error, session.as_deref()).into_response(),
        None => response,
    }
}

/// The session a path names.
fn session_of(path: &str) -> Option<&str> {
    path.strip_prefix("/api/session/")?.split('/').next()
}

fn tagged(error: ApiError, session: Option<&str>) -> ApiError {
    match error {
        ApiError::Shape { message, kind } => {
            let refused = |message: &str| {
                ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", message)
            };
            match field_of(&message).filter(|_| kind == "Params") {
                Some("sessionID") => refused("Invalid session ID").with("field", "sessionID"),
                Some(field) => refused(&message).with("field", field),
                None => refused(&message).with("kind", kind),
            }
        }
        ApiError::NotFound(message) => {
            let named = message.rsplit(": ").next().unwrap_or_default().to_owned();
            let missing = |tag| ApiError::tagged(StatusCode::NOT_FOUND, tag, &message);
            if message.starts_with("Session not found") {
                missing("SessionNotFoundError").with("sessionID", named)
            } else if message.starts_with("Message not found") {
                let session = session.unwrap_or_default();
                missing("MessageNotFoundError").with("sessionID", session).with("messageID", named)
            } else {
                missing("NotFoundError")
            }
        }
        ApiError::NotOffered { what } => {
            let message = format!("{what} is not offered by this server");
            ApiError::tagged(StatusCode::NOT_IMPLEMENTED, "NotOfferedError", &message)
        }
        ApiError::Unknown { reference } => {
            let message = "Unexpected server error. Check server logs for details.";
            ApiError::tagged(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", message)
                .with("ref", reference)
        }
        tagged @ ApiError::Tagged { .. } => tagged,
    }
}

/// The field in `… at ["field"]`.
fn field_of(message: &str) -> Option<&str> {
    message.rsplit_once("at [\"")?.1.strip_suffix("\"]")
}
