//! Prompts: read from a request, filled in with what they name, stored, and answered.
//!
//! Runs no model: an outside runner takes prompts from the inbox; without one the answer says so.

mod answer;
mod choose;
mod expand;
mod file;
mod input;
mod repeat;
mod send;
mod template;

pub(crate) use choose::{Choice, Wanted};
pub(crate) use input::{FileInput, PartInput, PartKind, PromptInput, model};
pub(crate) use template::{Filled, mentions, parameters};
