//! Configuration on its way to a client: the only form in which a route can answer with it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use turnstone_core::redact::redact;

/// A part of the configuration without its secrets.
#[derive(Clone, Debug)]
pub(crate) struct ShownConfig(Value);

impl ShownConfig {
    /// Hides the secrets of a value that was made from the configuration.
    pub(crate) fn new(mut value: Value) -> Self {
        redact(&mut value);
        Self(value)
    }

    /// The redacted value.
    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

impl IntoResponse for ShownConfig {
    fn into_response(self) -> Response {
        Json(self.0).into_response()
    }
}
