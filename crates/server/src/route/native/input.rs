//! Bodies of native requests: small structures, read whole.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::app::App;
use crate::error::ApiError;
use crate::input::MaybeBody;

/// A body of a known shape; no body is an empty object, and `null` is the same as leaving a field out.
pub(super) struct Typed<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Typed<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let MaybeBody(fields) = MaybeBody::from_request(request, app).await?;
        let mut given = fields.rest();
        given.retain(|_, value| !value.is_null());
        let read = serde_json::from_value(Value::Object(given));
        read.map(Self).map_err(|error| ApiError::payload(error.to_string()))
    }
}
