//! Ids in a path.

use serde_json::Value;

use super::fields::told;
use super::query::Query;
use crate::error::ApiError;

/// Reads the id `text` of the path segment `name`.
///
/// OpenCode answers a session id that is none with an internal error; here it is the client's mistake.
pub(crate) fn parse_id<T: TryFrom<String>>(
    name: &str,
    prefix: &str,
    text: &str,
) -> Result<T, ApiError> {
    let got = || told(&Value::from(text));
    T::try_from(text.to_owned()).map_err(|_| {
        let expected = format!("Expected a string starting with \"{prefix}\"");
        ApiError::params(format!("{expected}, got {}\n  at [\"{name}\"]", got()))
    })
}

/// Reads the id `text` of the query's word `key`.
pub(crate) fn id_in<T: TryFrom<String>>(
    query: &Query,
    key: &str,
    prefix: &str,
    text: &str,
) -> Result<T, ApiError> {
    let expected = format!("a string starting with \"{prefix}\"");
    T::try_from(text.to_owned()).map_err(|_| query.refuse(key, &expected, text))
}
