//! Worktrees as sandboxes: further checkouts of a project, made and removed by Turnstone.
//!
//! Only a directory that the database says Turnstone made is ever removed or reset, and only a branch
//! that was made with it is ever deleted. Work that exists nowhere else needs force, and a capture
//! is taken even then.

mod create;
mod error;
mod name;
mod remove;

pub use create::Worktrees;
pub use create::{WorktreeInfo, WorktreeRequest};
pub use error::WorktreeError;
pub use remove::{UnsavedWork, WorktreePlan, WorktreeRemovalReport, WorktreeResetReport};
