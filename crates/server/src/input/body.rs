//! Bodies: read whole, within the limits, and only then looked into.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::fields::Fields;
use crate::app::App;
use crate::error::ApiError;
use axum::http::StatusCode;

/// A JSON object that must be there.
pub(crate) struct Body(pub(crate) Fields);

/// A JSON object, or nothing at all.
pub(crate) struct MaybeBody(pub(crate) Fields);

impl FromRequest<App> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        match value(request, app).await? {
            Some(value) => Fields::top(value).map(Self),
            None => Err(ApiError::payload("Expected object, got undefined")),
        }
    }
}

impl FromRequest<App> for MaybeBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let value = value(request, app).await?;
        Fields::top(value.unwrap_or_else(|| Value::Object(serde_json::Map::new()))).map(Self)
    }
}

/// The JSON of a request; nothing if it has no body.
async fn value(request: Request, app: &App) -> Result<Option<Value>, ApiError> {
    let limits = app.settings().limits;
    let bytes = read_body(request.into_body(), app).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let Measure { depth, values } = measure(&bytes);
    if depth > limits.depth {
        return Err(ApiError::payload(format!("a body may be {} levels deep", limits.depth)));
    }
    // Each takes many times the room in memory that it takes here.
    if values > limits.values {
        let message = format!("a body may hold {} values", limits.values);
        return Err(ApiError::tagged(StatusCode::PAYLOAD_TOO_LARGE, "TooLargeError", &message));
    }
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(ApiError::payload(format!("The body is not JSON: {error}"))),
    }
}

/// A body, whole and within the limits.
pub(crate) async fn read_body(body: axum::body::Body, app: &App) -> Result<Bytes, ApiError> {
    let limits = app.settings().limits;
    let collect = Limited::new(body, limits.body).collect();
    let time = std::time::Duration::from_secs(limits.arrival);
    match tokio::time::timeout(time, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("a body may have {} bytes", limits.body);
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(ApiError::tagged(status, "TooLargeError", &message))
        }
        Ok(Err(_)) => Err(ApiError::payload("The body ended too early")),
        Err(_) => {
            let message = "the body took too long to arrive";
            Err(ApiError::tagged(StatusCode::REQUEST_TIMEOUT, "TimeoutError", message))
        }
    }
}

/// The shape of a JSON text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Measure {
    /// How deep its objects and lists are nested.
    depth: usize,
    /// How many values it holds, or one or two more.
    values: usize,
}

/// Measures a JSON text without parsing it.
fn measure(text: &[u8]) -> Measure {
    let mut found = Measure { depth: 0, values: 1 };
    let (mut now, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                found.depth = found.depth.max(now);
                found.values += 1;
            }
            b',' if !quoted => found.values += 1,
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Measure, measure};

    #[test]
    fn what_is_nested_and_listed_is_measured_and_not_what_is_quoted() {
        let text = br#"{"a":[1,{"b":"}]{[\",,["}]}"#;
        assert_eq!(measure(text), Measure { depth: 3, values: 5 });
        assert_eq!(measure(b"1"), Measure { depth: 0, values: 1 });
    }
}
