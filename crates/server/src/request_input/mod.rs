//! Input: bodies, queries and ids, each refused with the position of the error.
//!
//! The words of a refusal are those OpenCode's server uses, so that a client shows the same.

mod id_params;
mod json_body;
mod json_fields;
mod query_params;

pub(crate) use id_params::{parse_path_id, parse_query_id};
pub(crate) use json_body::{JsonBody, OptionalJsonBody, read_body};
pub(crate) use json_fields::{JsonFields, quote_value};
pub(crate) use query_params::{QueryParams, format_js_number, parse_js_number};
