//! Differences between two captures, or a capture and the worktree: which files, how much, and as a
//! patch for `git apply`.
//!
//! One engine for all questions. Names are bytes, renames are a deletion and an addition, and a path
//! that one side does not cover is never called added or deleted (R1).

mod binary_patch;
mod coverage_diff;
mod file_diffs;
mod patch;
mod path_quoting;
mod rename;
mod tree_diff;
mod untracked;
mod worktree_diff;

pub(crate) use coverage_diff::coverage_changes;
pub use file_diffs::{CaptureDiff, CaptureDiffs, DiffOptions, DiffStatus, PathDiff};
pub use patch::PatchBody;
pub use rename::DetectedRename;
pub(crate) use tree_diff::{find_image, list_path_changes, list_tree_leaves};
pub use untracked::{UntrackedFiles, UntrackedPatch};
pub use worktree_diff::{DiffError, SizedFileChange};
