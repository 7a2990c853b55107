//! A JSON text as a tree that borrows from it: what has no escapes is not copied.

use std::borrow::Cow;

use super::Json;
use super::json_value::as_safe_integer;

/// One JSON value of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawJson<'a> {
    Null,
    Bool(bool),
    Number(f64),
    String(Cow<'a, str>),
    Array(Vec<RawJson<'a>>),
    Object(Vec<(Cow<'a, str>, RawJson<'a>)>),
}

impl RawJson<'_> {
    /// Returns the text, if it is one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            return Some(text);
        }
        None
    }

    /// Returns the number if it is an integer that JavaScript can represent exactly.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        if let Self::Number(number) = self {
            return as_safe_integer(*number);
        }
        None
    }

    /// Copies the tree.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(number) => Json::Number(*number),
            Self::String(text) => Json::String(text.to_string()),
            Self::Array(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(fields) => {
                let copy = |(key, value): &(Cow<'_, str>, Self)| (key.to_string(), value.to_json());
                Json::Object(fields.iter().map(copy).collect())
            }
        }
    }
}
