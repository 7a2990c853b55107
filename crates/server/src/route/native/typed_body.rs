//! Bodies of native requests: small structures, read whole.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::body_deserializer::BodyDeserializer;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::OptionalJsonBody;

/// A body of a known shape; no body is an empty object, and `null` is the same as leaving a field out.
pub(super) struct TypedBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for TypedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let OptionalJsonBody(fields) = OptionalJsonBody::from_request(request, app).await?;
        T::deserialize(BodyDeserializer::from_root(fields.into_map()))
            .map(Self)
            .map_err(|error| ApiError::invalid_payload(error.to_string()))
    }
}
