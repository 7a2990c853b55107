//! Bodies of native requests: small structures, read whole.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::OptionalJsonBody;

/// A body of a known shape; no body is an empty object, and `null` is the same as leaving a field out.
pub(super) struct TypedBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for TypedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let OptionalJsonBody(fields) = OptionalJsonBody::from_request(request, app).await?;
        deserialize_body(fields.into_map())
            .map(Self)
            .map_err(|error| ApiError::invalid_payload(error.to_string()))
    }
}

/// Reads a body; a field that is not known is refused, be it `null` or not.
fn deserialize_body<T: DeserializeOwned>(fields: Map<String, Value>) -> serde_json::Result<T> {
    let (nulls, given): (Map<_, _>, Map<_, _>) =
        fields.into_iter().partition(|(_, value)| value.is_null());
    for (name, null) in nulls {
        // By itself: what is missing or what serde thinks of `null` does not matter, only whether the name is
        // known, which it says first.
        let probe = Map::from_iter([(name, null)]);
        if let Err(error) = serde_json::from_value::<T>(Value::Object(probe))
            && error.to_string().starts_with("unknown field")
        {
            return Err(error);
        }
    }
    serde_json::from_value(Value::Object(given))
}

/// A whole number that may be left out; `3.0` is one.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    // Beyond this a float no longer tells one whole number from the next.
    let is_whole = |float: &f64| float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0;
    let read = number.as_i64().or_else(|| number.as_f64().filter(is_whole).map(|it| it as i64));
    let refused = || serde::de::Error::custom(format!("expected a whole number, got {number}"));
    read.map(Some).ok_or_else(refused)
}
