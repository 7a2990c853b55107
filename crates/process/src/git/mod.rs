//! `git` for worktrees, started with nothing of the surroundings and no program of a repository.
//!
//! Reads refs, status and worktrees and changes worktrees and branches. Never fetches, never asks,
//! never runs hooks; filters only where they are asked for.

mod diff;
mod error;
mod operation;
mod parse;
mod run;

pub use error::GitError;
pub use operation::{NewWorktree, Removal};
pub use parse::{Branch, Change, WorktreeRow};
pub use run::{Filters, Git, GitEnvironment, GitLimits};
