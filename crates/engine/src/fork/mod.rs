//! Forks: a copy of a session up to a message that depends on nothing of the original (R40), in the
//! same files or in a worktree of its own that holds the files of that point.

mod copy;
mod point;
mod worktree;

pub use worktree::ForkedWorktree;
