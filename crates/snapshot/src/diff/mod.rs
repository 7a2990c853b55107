//! Differences between two captures: which files, how much, and as a patch for `git apply`.
//!
//! One engine for all questions. Names are bytes, renames are a deletion and an addition, and a path
//! that one side does not cover is never called added or deleted (R1).

mod patch;
mod quote;
mod trees;

pub use patch::Patch;
pub(crate) use trees::Change;
pub use trees::{Diff, DiffOptions, FileDiff, Status};
