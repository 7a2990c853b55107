//! Ids in a path.

use serde_json::Value;

use super::json_fields::quote_value;
use super::query_params::QueryParams;
use crate::error::ApiError;

/// Reads the id `text` of the path segment `name`.
///
/// OpenCode answers an invalid session id with an internal error; here it is an error of the client.
pub(crate) fn parse_path_id<T: TryFrom<String>>(
    name: &str,
    prefix: &str,
    text: &str,
) -> Result<T, ApiError> {
    let got = || quote_value(&Value::from(text));
    T::try_from(text.to_owned()).map_err(|_| {
        let expected = format!("Expected a string starting with \"{prefix}\"");
        ApiError::invalid_params(format!("{expected}, got {}\n  at [\"{name}\"]", got()))
    })
}

/// Reads the id `text` of the query's word `key`.
pub(crate) fn parse_query_id<T: TryFrom<String>>(
    query: &QueryParams,
    key: &str,
    prefix: &str,
    text: &str,
) -> Result<T, ApiError> {
    let expected = format!("a string starting with \"{prefix}\"");
    T::try_from(text.to_owned()).map_err(|_| query.invalid_param(key, &expected, text))
}
