//! OpenCode's JSON shapes, made from the model and read back into it.
//!
//! Owns the differences between the model's own serde form and what OpenCode's clients, exports and
//! databases hold: ids inside the object, `cost` and `tokens` of a session, no field of ours. Decides
//! nothing and stores nothing. Reading is strict for clients and lenient for imports, see [`Mode`].

mod content;
mod document;
mod figures;
mod moment;
mod place;
mod raw;
mod session;
mod shape;

pub use content::{
    IMPORTED_TOOLS, message_export, message_info, parse_message, parse_part, part_info,
    user_variant,
};
pub use document::{Document, Entry, document, parse_document};
pub use figures::{cost_and_tokens, tokens_of, usage_of};
pub use moment::{Precision, repair_moments};
pub use place::{
    file_diffs, parse_file_diffs, parse_project, parse_rules, parse_todos, project_info,
    request_info, todos, worktree_info,
};
pub use raw::{write_message, write_part, write_session};
pub use session::{parse_session, session_export, session_info};
pub use shape::{Mode, ShapeError};
