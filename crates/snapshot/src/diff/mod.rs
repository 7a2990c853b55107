//! Differences between two captures, or a capture and the worktree: which files, how much, and as a
//! patch for `git apply`.
//!
//! One engine for all questions. Names are bytes, renames are a deletion and an addition, and a path
//! that one side does not cover is never called added or deleted (R1).

mod disk;
mod patch;
mod quote;
mod rename;
mod show;
mod trees;
mod untracked;

pub use disk::DiffError;
pub use patch::Patch;
pub use rename::Rename;
pub(crate) use show::Unread;
pub use show::{Diff, DiffOptions, FileDiff, Status};
pub(crate) use trees::Change;
pub use untracked::{UntrackedFiles, UntrackedPatch};
