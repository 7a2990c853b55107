//! The query of a request.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use super::fields::told;
use crate::app::App;
use crate::error::ApiError;

/// The largest number a client in JavaScript can count to.
const LARGEST: usize = 9_007_199_254_740_991;

/// The words after the question mark; of a repeated one the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl FromRequestParts<App> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        Ok(Self::of(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    /// Reads a query string.
    pub(crate) fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(decoded).collect())
    }

    /// A word, if it is there; an empty one is.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A word that is there and not empty.
    pub(crate) fn filled(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|text| !text.is_empty())
    }

    /// A word that must be there.
    pub(crate) fn need(&self, key: &str) -> Result<&str, ApiError> {
        let missing = || ApiError::query(format!("Missing key\n  at [\"{key}\"]"));
        self.get(key).ok_or_else(missing)
    }

    /// `true` or `false`; left out it is false.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, ApiError> {
        match self.get(key) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(self.refuse(key, "\"true\" | \"false\"", other)),
        }
    }

    /// A number that is not negative.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        if let Ok(number) = text.parse::<usize>()
            && number <= LARGEST
        {
            return Ok(Some(number));
        }
        let place = format!("\n  at [\"{key}\"]");
        match text.parse::<f64>() {
            Ok(number) if number < 0.0 => {
                let message = "Expected a value greater than or equal to 0, got";
                Err(ApiError::query(format!("{message} {number}{place}")))
            }
            Ok(number) => Err(ApiError::query(format!("Expected an integer, got {number}{place}"))),
            Err(_) => Err(ApiError::query(format!("Expected a number, got NaN{place}"))),
        }
    }

    /// A refusal of the word `key`.
    pub(crate) fn refuse(&self, key: &str, expected: &str, got: &str) -> ApiError {
        let got = told(&serde_json::Value::from(got));
        ApiError::query(format!("Expected {expected}, got {got}\n  at [\"{key}\"]"))
    }
}

fn decoded((key, value): (&str, &str)) -> (String, String) {
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
    fn words_are_decoded_and_the_last_of_a_name_counts() {
        let query = Query::of("location%5Bdirectory%5D=%2Fa+b&x=1&x=2&flag");
        assert_eq!(query.get("location[directory]"), Some("/a b"));
        assert_eq!(query.get("x"), Some("2"));
        assert_eq!(query.get("flag"), Some(""));
    }

    #[test]
    fn a_wrong_word_is_refused_with_its_name() {
        let refused = Query::of("roots=maybe").flag("roots").map_err(|error| error.body());
        let words = "Expected \"true\" | \"false\", got \"maybe\"\n  at [\"roots\"]";
        assert_eq!(refused.map_err(|body| body["data"]["message"].clone()), Err(words.into()));
        assert!(Query::of("limit=-1").count("limit").is_err());
    }
}
