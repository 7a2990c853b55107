//! A session as a transcript: who said what, what was done, what it cost.
//!
//! Makes lines out of values of the model. Reads nothing and prints nothing.

mod call;
mod page;
mod part;

pub(crate) use page::{Detail, Transcript};
