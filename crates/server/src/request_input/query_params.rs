//! The query of a request.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use super::json_fields::quote_value;
use crate::app::AppState;
use crate::error::ApiError;

/// The largest number a client in JavaScript can count to.
const MAX_SAFE_INTEGER: usize = 9_007_199_254_740_991;

/// The words after the question mark, each with all its values. Where a repeated word is no error, the
/// last value counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryParams(BTreeMap<String, Vec<String>>);

impl FromRequestParts<AppState> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &AppState) -> Result<Self, ApiError> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl QueryParams {
    /// Reads a query string.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let mut params: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in pairs {
            let (key, value) = decode_pair(pair.split_once('=').unwrap_or((pair, "")));
            params.entry(key).or_default().push(value);
        }
        Self(params)
    }

    /// A word, if it is there; an empty one is.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|values| values.last()).map(String::as_str)
    }

    /// A word that may be there once.
    pub(crate) fn find_single(&self, key: &str) -> Result<Option<&str>, ApiError> {
        self.ensure_single(key, "string | undefined")?;
        Ok(self.get(key))
    }

    fn ensure_single(&self, key: &str, expected: &str) -> Result<(), ApiError> {
        match self.0.get(key) {
            Some(values) if values.len() > 1 => {
                let got = quote_value(&serde_json::Value::from(values.as_slice()));
                let message = format!("Expected {expected}, got {got}\n  at [\"{key}\"]");
                Err(ApiError::invalid_query(message))
            }
            _ => Ok(()),
        }
    }

    /// A word that is there and not empty.
    pub(crate) fn non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|text| !text.is_empty())
    }

    /// A word that must be there.
    pub(crate) fn require(&self, key: &str) -> Result<&str, ApiError> {
        let missing = || ApiError::invalid_query(format!("Missing key\n  at [\"{key}\"]"));
        self.get(key).ok_or_else(missing)
    }

    /// `true` or `false`; left out it is false.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, ApiError> {
        self.ensure_single(key, "\"true\" | \"false\" | undefined")?;
        match self.get(key) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(self.invalid_param(key, "\"true\" | \"false\"", other)),
        }
    }

    /// A number that is not negative.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.find_single(key)? else { return Ok(None) };
        if let Ok(number) = text.parse::<usize>()
            && number <= MAX_SAFE_INTEGER
        {
            return Ok(Some(number));
        }
        let place = format!("\n  at [\"{key}\"]");
        let number = parse_js_number(text);
        let shown = format_js_number(number);
        let expected = match number < 0.0 {
            true => "a value greater than or equal to 0",
            false => "an integer",
        };
        Err(ApiError::invalid_query(format!("Expected {expected}, got {shown}{place}")))
    }

    /// A refusal of the word `key`.
    pub(crate) fn invalid_param(&self, key: &str, expected: &str, got: &str) -> ApiError {
        let got = quote_value(&serde_json::Value::from(got));
        ApiError::invalid_query(format!("Expected {expected}, got {got}\n  at [\"{key}\"]"))
    }
}

/// The number a text is in JavaScript, or NaN.
pub(crate) fn parse_js_number(text: &str) -> f64 {
    let is_plain =
        |text: &str| !text.contains(|c: char| c.is_alphabetic() && !matches!(c, 'e' | 'E'));
    match text {
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        text if is_plain(text) => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// A number as JavaScript writes it.
pub(crate) fn format_js_number(number: f64) -> String {
    match number.is_infinite() {
        true if number > 0.0 => "Infinity".to_owned(),
        true => "-Infinity".to_owned(),
        false => number.to_string(),
    }
}

fn decode_pair((key, value): (&str, &str)) -> (String, String) {
    let one = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    (one(key), one(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_decoded_and_the_last_value_wins() {
        let query = QueryParams::parse("location%5Bdirectory%5D=%2Fa+b&x=1&x=2&flag");
        assert_eq!(query.get("location[directory]"), Some("/a b"));
        assert_eq!(query.get("x"), Some("2"));
        assert_eq!(query.get("flag"), Some(""));
    }

    #[test]
    fn invalid_param_error_names_the_param() {
        let refused = QueryParams::parse("roots=maybe").flag("roots").map_err(|error| error.body());
        let words = "Expected \"true\" | \"false\", got \"maybe\"\n  at [\"roots\"]";
        assert_eq!(refused.map_err(|body| body["data"]["message"].clone()), Err(words.into()));
        assert!(QueryParams::parse("limit=-1").count("limit").is_err());
        for (text, shown) in [("1e999", "Infinity"), ("inf", "NaN"), ("1.5", "1.5"), ("x", "NaN")] {
            let refused = QueryParams::parse(&format!("limit={text}")).count("limit");
            let words = format!("Expected an integer, got {shown}\n  at [\"limit\"]");
            let got = refused.map_err(|error| error.body()["data"]["message"].clone());
            assert_eq!(got, Err(words.into()), "{text}");
        }
        let refused = QueryParams::parse("limit=1&limit=2").count("limit");
        let words = "Expected string | undefined, got [\"1\",\"2\"]\n  at [\"limit\"]";
        assert_eq!(
            refused.map_err(|error| error.body()["data"]["message"].clone()),
            Err(words.into())
        );
    }
}
