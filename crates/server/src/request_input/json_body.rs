//! Bodies: read whole, within the limits, and only then looked into.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use turnstone_core::lone_surrogates::decode_json;

use super::json_fields::JsonFields;
use crate::app::AppState;
use crate::error::ApiError;
use axum::http::StatusCode;

/// A JSON object that must be there.
pub(crate) struct JsonBody(pub(crate) JsonFields);

/// A JSON object, or nothing at all.
pub(crate) struct OptionalJsonBody(pub(crate) JsonFields);

impl FromRequest<AppState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        match read_json(request, app).await? {
            Some(value) => JsonFields::from_root(value).map(Self),
            None => Err(ApiError::invalid_payload("Expected object, got undefined")),
        }
    }
}

impl FromRequest<AppState> for OptionalJsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let value = read_json(request, app).await?;
        JsonFields::from_root(value.unwrap_or_else(|| Value::Object(serde_json::Map::new())))
            .map(Self)
    }
}

/// The JSON of a request; nothing if it has no body.
async fn read_json(request: Request, app: &AppState) -> Result<Option<Value>, ApiError> {
    let limits = app.settings().limits;
    let bytes = read_body(request.into_body(), app).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let JsonMeasure { depth, values } = measure_json(&bytes);
    if depth > limits.depth {
        return Err(ApiError::invalid_payload(format!(
            "a body may be {} levels deep",
            limits.depth
        )));
    }
    // Each takes many times the room in memory that it takes here.
    if values > limits.values {
        let message = format!("a body may hold {} values", limits.values);
        return Err(ApiError::tagged(StatusCode::PAYLOAD_TOO_LARGE, "TooLargeError", &message));
    }
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(text) => serde_json::from_str(&decode_json(text)),
        // The parser says where the mistake is.
        Err(_) => serde_json::from_slice(&bytes),
    };
    match parsed {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(ApiError::invalid_payload(format!("The body is not JSON: {error}"))),
    }
}

/// A body, whole and within the limits.
pub(crate) async fn read_body(body: axum::body::Body, app: &AppState) -> Result<Bytes, ApiError> {
    let limits = app.settings().limits;
    let collect = Limited::new(body, limits.body).collect();
    let time = std::time::Duration::from_secs(limits.body_timeout_secs);
    match tokio::time::timeout(time, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("a body may have {} bytes", limits.body);
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(ApiError::tagged(status, "TooLargeError", &message))
        }
        Ok(Err(_)) => Err(ApiError::invalid_payload("The body ended too early")),
        Err(_) => {
            let message = "the body took too long to arrive";
            Err(ApiError::tagged(StatusCode::REQUEST_TIMEOUT, "TimeoutError", message))
        }
    }
}

/// The shape of a JSON text.
#[derive(Debug, Default, PartialEq, Eq)]
struct JsonMeasure {
    /// How deep its objects and lists are nested.
    depth: usize,
    /// How many values it holds, or one or two more.
    values: usize,
}

/// Measures a JSON text without parsing it.
fn measure_json(text: &[u8]) -> JsonMeasure {
    let mut found = JsonMeasure { depth: 0, values: 1 };
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
    use super::{JsonMeasure, measure_json};

    #[test]
    fn json_measure_ignores_quoted_text() {
        let text = br#"{"a":[1,{"b":"}]{[\",,["}]}"#;
        assert_eq!(measure_json(text), JsonMeasure { depth: 3, values: 5 });
        assert_eq!(measure_json(b"1"), JsonMeasure { depth: 0, values: 1 });
    }
}
