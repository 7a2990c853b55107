//! What comes in: bodies, queries and ids, each refused with the place where it goes wrong.
//!
//! The words of a refusal are those OpenCode's server uses, so that a client shows the same.

mod body;
mod fields;
mod id;
mod query;

pub(crate) use body::{Body, MaybeBody};
pub(crate) use fields::Fields;
pub(crate) use id::parse_id;
pub(crate) use query::Query;
