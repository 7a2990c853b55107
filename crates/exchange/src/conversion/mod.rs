//! Raw records as values of the model: ids made to fit, references with them, old shapes completed.
//!
//! What a shape of today needs and an older one did not have is filled in; what is there is never
//! changed, except ids that do not fit (R30). What cannot be made to fit is refused in words. Knows
//! neither the source nor the store.

mod json_field;
mod message;
mod part;
mod project_data;
mod session;

pub(crate) use json_field::ConversionError;
pub(crate) use message::{PrecedingMessages, convert_message};
pub(crate) use part::convert_part;
pub(crate) use project_data::{
    convert_diff, convert_project, convert_rule, convert_share, convert_todos,
    project_from_worktree,
};
pub(crate) use session::convert_session;
