//! The user's worktree on disk: the only place of Turnstone that opens, lists or writes its files.
//!
//! Owns a handle to the root and reaches everything from there without following a link (R16).
//! Writes go through the handle of the parent directory, so that a directory swapped for a link
//! during an operation leads nowhere. Never touches anything named `.git`.

mod dir;
mod root;
mod stat;
mod write;

pub(crate) use dir::{Dir, Names};
pub use root::{RootError, RootPolicy, Worktree};
pub(crate) use stat::{Kind, Stat};
pub use write::set_worktree_mask;
pub(crate) use write::{Name, copy_metadata, set_perm, sync_file_system, touch};
