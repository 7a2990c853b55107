//! What comes in: bodies, queries and ids, each refused with the place where it goes wrong.
//!
//! The words of a refusal are those OpenCode's server uses, so that a client shows the same.

mod body;
mod fields;
mod id;
mod query;

pub(crate) use body::{Body, MaybeBody, read_body};
pub(crate) use fields::{Fields, told};
pub(crate) use id::{id_in, parse_id};
pub(crate) use query::Query;
