//! Forks: a copy of a session up to a message that depends on nothing of the original (R40), in the
//! same files or in a worktree of its own that holds the files of that point.

mod copy;
mod pin;
mod point;
mod worktree;

pub(crate) use copy::is_half;
pub use worktree::ForkedWorktree;
