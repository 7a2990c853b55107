//! What reading a shape has in common: how strict it is, and how it refuses.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::ExtraFields;

/// How unknown kinds are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseMode {
    /// As a client's request: a part of an unknown type is refused.
    Strict,
    /// As an import: a part of an unknown type is kept as it came.
    Lenient,
}

/// Why a value is not of the wanted shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: {reason}")]
pub struct ShapeError {
    /// Name of the expected shape.
    pub what: &'static str,
    /// What is wrong with the value.
    pub reason: String,
}

impl ShapeError {
    pub(super) fn new(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self { what, reason: reason.to_string() }
    }
}

/// The object in `value`.
pub(super) fn expect_object(what: &'static str, value: Value) -> Result<ExtraFields, ShapeError> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ShapeError::new(what, "it is not an object"))
        }
    }
}

/// Takes the id `key` out of `map`.
pub(super) fn take_field<T: DeserializeOwned>(
    what: &'static str,
    map: &mut ExtraFields,
    key: &str,
) -> Result<T, ShapeError> {
    let value = map.remove(key).ok_or_else(|| ShapeError::new(what, format!("no {key}")))?;
    parse_value(what, value)
}

/// Reads `value` by the model's own rules.
pub(super) fn parse_value<T: DeserializeOwned>(
    what: &'static str,
    value: Value,
) -> Result<T, ShapeError> {
    serde_json::from_value(value).map_err(|error| ShapeError::new(what, error))
}

/// The model's own form of `value` as an object.
///
/// The types given here serialise to objects and have string keys only, so this cannot fail; should a
/// later change break that, the result is an empty object, which every test of the shapes catches.
pub(super) fn to_object(value: &impl Serialize) -> ExtraFields {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => ExtraFields::new(),
    }
}
