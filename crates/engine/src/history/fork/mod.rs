//! Forks: a copy of a session up to a message that depends on nothing of the original (R40), in the
//! same files or in a worktree of its own that holds the files of that point.

mod capture_at_point;
mod copy;
mod copy_batch;
mod pin;
mod worktree;

pub(crate) use copy::SessionCopies;
pub(crate) use copy::is_incomplete_copy;
pub use worktree::ForkedWorktree;
pub use worktree::Forks;
