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

/// The words after the question mark; of a repeated one the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryParams(BTreeMap<String, String>);

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
        Self(
            pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(decode_pair).collect(),
        )
    }

    /// A word, if it is there; an empty one is.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
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
        match self.get(key) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(self.invalid_param(key, "\"true\" | \"false\"", other)),
        }
    }

    /// A number that is not negative.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        if let Ok(number) = text.parse::<usize>()
            && number <= MAX_SAFE_INTEGER
        {
            return Ok(Some(number));
        }
        let place = format!("\n  at [\"{key}\"]");
        match text.parse::<f64>() {
            Ok(number) if number < 0.0 => {
                let message = "Expected a value greater than or equal to 0, got";
                Err(ApiError::invalid_query(format!("{message} {number}{place}")))
            }
            Ok(number) => {
                Err(ApiError::invalid_query(format!("Expected an integer, got {number}{place}")))
            }
            Err(_) => Err(ApiError::invalid_query(format!("Expected a number, got NaN{place}"))),
        }
    }

    /// A refusal of the word `key`.
    pub(crate) fn invalid_param(&self, key: &str, expected: &str, got: &str) -> ApiError {
        let got = quote_value(&serde_json::Value::from(got));
        ApiError::invalid_query(format!("Expected {expected}, got {got}\n  at [\"{key}\"]"))
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
    }
}
