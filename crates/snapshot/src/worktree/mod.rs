//! The user's worktree on disk: the only place of Turnstone that opens, lists or writes its files.
//!
//! Owns a handle to the root and reaches everything from there without following a link (R16).
//! Writes go through the handle of the parent directory, so that a directory swapped for a link
//! during an operation leads nowhere. Never touches anything named `.git`.

mod directory;
mod file_ops;
mod root;
mod stat;

pub(crate) use directory::{DirectoryNames, WorktreeDir};
pub use file_ops::set_worktree_mask;
pub(crate) use file_ops::{NameInDir, before_write, copy_metadata, set_perm, sync_file_system};
pub(crate) use root::birth_time_of;
pub use root::{RootError, RootPolicy, Worktree};
pub(crate) use stat::{FileKind, FileStat};
