//! OpenCode's JSON shapes, made from the model and read back into it.
//!
//! Owns the differences between the model's own serde form and what OpenCode's clients, exports and
//! databases hold: ids inside the object, `cost` and `tokens` of a session, no field of ours. Decides
//! nothing and stores nothing. Reading is strict for clients and lenient for imports, see [`ParseMode`].

mod document;
mod message;
mod moment;
mod parsing;
mod project;
mod raw_json;
mod session;
mod usage;

pub use document::{DocumentMessage, ExportDocument, export_document};
pub use message::{
    IMPORTED_TOOLS, message_export, message_info, parse_message, parse_part, part_info,
    user_variant,
};
pub use moment::{Precision, repair_moments};
pub use parsing::{ParseMode, ShapeError};
pub use project::{
    file_diffs_info, parse_file_diffs, parse_project, project_info, request_info, todos_info,
    worktree_info,
};
pub use raw_json::{write_message, write_part, write_session};
pub use session::{parse_session, session_export, session_info};
pub use usage::{cost_and_tokens, part_usage, tokens_info};
