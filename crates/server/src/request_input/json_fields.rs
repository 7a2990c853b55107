//! The fields of a JSON object, read one by one.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// The longest value that is shown in a refusal.
const MAX_SHOWN_CHARS: usize = 200;

/// An object of a request and its position in the body.
#[derive(Clone, Debug)]
pub(crate) struct JsonFields {
    map: Map<String, Value>,
    path: Vec<String>,
}

/// What a value is called in a refusal.
pub(crate) fn quote_value(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl JsonFields {
    /// The object in `value`, at the top of the body.
    pub(crate) fn from_root(value: Value) -> Result<Self, ApiError> {
        Self::at_path(value, Vec::new())
    }

    fn at_path(value: Value, place: Vec<String>) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { map, path: place }),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)) => Err(ApiError::invalid_payload(format!(
                "Expected object, got {}{}",
                quote_value(&other),
                path_suffix(&place)
            ))),
        }
    }

    fn child_path(&self, key: &str) -> Vec<String> {
        let mut place = self.path.clone();
        place.push(format!("[{}]", Value::from(key)));
        place
    }

    /// A refusal of the field `key`: what was expected there instead of `value`.
    pub(crate) fn invalid_field(&self, key: &str, expected: &str, value: &Value) -> ApiError {
        let place = path_suffix(&self.child_path(key));
        ApiError::invalid_payload(format!("Expected {expected}, got {}{place}", quote_value(value)))
    }

    /// A refusal of the object itself: what was expected in its place.
    pub(crate) fn invalid_object(&self, expected: &str) -> ApiError {
        let got = quote_value(&Value::Object(self.map.clone()));
        ApiError::invalid_payload(format!(
            "Expected {expected}, got {got}{}",
            path_suffix(&self.path)
        ))
    }

    fn missing_field(&self, key: &str) -> ApiError {
        ApiError::invalid_payload(format!("Missing key{}", path_suffix(&self.child_path(key))))
    }

    /// The value of `key`, if there is one; `null` is none.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// True if the object has the field, even as `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// What is left.
    pub(crate) fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// A text that may be left out.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.invalid_field(key, "string | null", &other)),
        }
    }

    /// A text that must be there.
    pub(crate) fn require_text(&mut self, key: &str) -> Result<String, ApiError> {
        match self.map.remove(key) {
            None => Err(self.missing_field(key)),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.invalid_field(key, "string", &other)),
        }
    }

    /// A truth value; left out it is false.
    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, ApiError> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.invalid_field(key, "boolean | undefined", &other)),
        }
    }

    /// A whole number that is not negative and may be left out.
    pub(crate) fn count(&mut self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match non_negative_integer(&value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.invalid_field(key, "a non-negative integer", &value)),
            },
        }
    }

    /// An object that may be left out.
    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Self>, ApiError> {
        let place = self.child_path(key);
        self.take(key).map(|value| Self::at_path(value, place)).transpose()
    }

    /// A list that may be left out.
    pub(crate) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.invalid_field(key, "array", &other)),
        }
    }

    /// A list of objects that must be there.
    pub(crate) fn require_objects(&mut self, key: &str) -> Result<Vec<Self>, ApiError> {
        if !self.has(key) {
            return Err(self.missing_field(key));
        }
        match self.map.remove(key) {
            Some(Value::Array(list)) => {
                let place = self.child_path(key);
                let one = |(index, value)| {
                    let mut place = place.clone();
                    place.push(format!("[{index}]"));
                    Self::at_path(value, place)
                };
                list.into_iter().enumerate().map(one).collect()
            }
            other => Err(self.invalid_field(key, "array", &other.unwrap_or_default())),
        }
    }

    /// A value of the model that may be left out.
    pub(crate) fn read<T: DeserializeOwned>(
        &mut self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match serde_json::from_value(value.clone()) {
            Ok(read) => Ok(Some(read)),
            Err(_) => Err(self.invalid_field(key, expected, &value)),
        }
    }

    /// A value of the model that must be there.
    pub(crate) fn require<T: DeserializeOwned>(
        &mut self,
        key: &str,
        expected: &str,
    ) -> Result<T, ApiError> {
        if !self.has(key) {
            return Err(self.missing_field(key));
        }
        let value = self.map.remove(key).unwrap_or_default();
        serde_json::from_value(value.clone()).map_err(|_| self.invalid_field(key, expected, &value))
    }

    /// An id that may be left out: a text that begins with `prefix`.
    pub(crate) fn id<T: TryFrom<String>>(
        &mut self,
        key: &str,
        prefix: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let value = Value::from(text.as_str());
        let refuse =
            || self.invalid_field(key, &format!("a string starting with \"{prefix}\""), &value);
        T::try_from(text.clone()).map(Some).map_err(|_| refuse())
    }

    /// An id that must be there.
    pub(crate) fn require_id<T: TryFrom<String>>(
        &mut self,
        key: &str,
        prefix: &str,
    ) -> Result<T, ApiError> {
        match self.id(key, prefix)? {
            Some(id) => Ok(id),
            None => Err(self.missing_field(key)),
        }
    }
}

/// A whole number that is not negative; `21.0` is one, too.
fn non_negative_integer(value: &Value) -> Option<u64> {
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..=9e15).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(is_whole).map(|number| number as u64))
}

/// The position in the body, as an error shows it.
fn path_suffix(place: &[String]) -> String {
    if place.is_empty() { String::new() } else { format!("\n  at {}", place.concat()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnstone_core::id::MessageId;

    use super::*;

    fn message(refused: &ApiError) -> String {
        refused.body()["data"]["message"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn error_says_what_was_expected_and_where() -> Result<(), ApiError> {
        let mut fields =
            JsonFields::from_root(json!({ "title": 5, "messageID": "foo", "parts": "x" }))?;
        let refused = fields.text("title").map_err(|e| message(&e));
        assert_eq!(refused, Err("Expected string | null, got 5\n  at [\"title\"]".to_owned()));
        let refused = fields.id::<MessageId>("messageID", "msg").map_err(|e| message(&e));
        let words = "Expected a string starting with \"msg\", got \"foo\"\n  at [\"messageID\"]";
        assert_eq!(refused, Err(words.to_owned()));
        let refused = fields.require_objects("parts").map(drop).map_err(|e| message(&e));
        assert_eq!(refused, Err("Expected array, got \"x\"\n  at [\"parts\"]".to_owned()));
        let refused = fields.require_objects("parts").map(drop).map_err(|e| message(&e));
        assert_eq!(refused, Err("Missing key\n  at [\"parts\"]".to_owned()));
        Ok(())
    }

    #[test]
    fn long_value_is_truncated_at_a_character() {
        assert_eq!(quote_value(&Value::from("é".repeat(400))).chars().count(), MAX_SHOWN_CHARS + 1);
    }
}
