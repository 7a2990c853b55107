//! Configuration on its way to a client: the only form in which a route can answer with it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use turnstone_core::redact::redact;

/// A part of the configuration without its secrets.
///
/// What people configure has no fixed shape, so this is JSON without a type.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ShownConfig(Value);

impl ShownConfig {
    /// Hides the secrets of a value that was made from the configuration.
    pub(crate) fn new(mut value: Value) -> Self {
        redact(&mut value);
        Self(value)
    }
}

impl IntoResponse for ShownConfig {
    fn into_response(self) -> Response {
        Json(self).into_response()
    }
}
