//! Errors with tags: what the older routes say, in the words of the newer ones.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// Says an error of any route of this surface with its tag.
pub(super) async fn translate_errors(request: Request, next: Next) -> Response {
    let session = path_session(request.uri().path()).map(str::to_owned);
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<ApiError>() {
        Some(error) => to_tagged(error, session.as_deref()).into_response(),
        None => response,
    }
}

/// The session a path names.
fn path_session(path: &str) -> Option<&str> {
    path.strip_prefix("/api/session/")?.split('/').next()
}

fn to_tagged(error: ApiError, session: Option<&str>) -> ApiError {
    match error {
        ApiError::InvalidInput { message, kind } => {
            let refused = |message: &str| {
                ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", message)
            };
            match error_field(&message).filter(|_| kind == "Params") {
                Some("sessionID") => refused("Invalid session ID").with_field("field", "sessionID"),
                Some(field) => refused(&message).with_field("field", field),
                None => refused(&message).with_field("kind", kind),
            }
        }
        ApiError::NotFound(message) => {
            let named = message.rsplit(": ").next().unwrap_or_default().to_owned();
            let missing = |tag| ApiError::tagged(StatusCode::NOT_FOUND, tag, &message);
            if message.starts_with("Session not found") {
                missing("SessionNotFoundError").with_field("sessionID", named)
            } else if message.starts_with("Message not found") {
                let session = session.unwrap_or_default();
                missing("MessageNotFoundError")
                    .with_field("sessionID", session)
                    .with_field("messageID", named)
            } else {
                missing("NotFoundError")
            }
        }
        ApiError::NotOffered { what } => {
            let message = format!("{what} is not offered by this server");
            ApiError::tagged(StatusCode::NOT_IMPLEMENTED, "NotOfferedError", &message)
        }
        ApiError::Internal { reference } => {
            let message = "Unexpected server error. Check server logs for details.";
            ApiError::tagged(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", message)
                .with_field("ref", reference)
        }
        tagged @ ApiError::Tagged { .. } => tagged,
    }
}

/// The field in `… at ["field"]`.
fn error_field(message: &str) -> Option<&str> {
    message.rsplit_once("at [\"")?.1.strip_suffix("\"]")
}
