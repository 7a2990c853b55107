//! Git for worktrees: no program that a repository or its surroundings name is ever started.
//!
//! The caller names the repository; git looks for none. One function builds every environment. Commands
//! that touch files see no configuration of the repository, those that manage worktrees see it without
//! the programs it names. Never fetches, never asks, runs no hooks and no filters.

mod configuration;
mod diff;
mod environment;
mod error;
mod isolation;
mod operation;
mod parse;
mod program;
mod repository;
mod run;

pub use environment::GitEnvironment;
pub use error::GitError;
pub use operation::NewWorktree;
pub use parse::{Branch, Change, WorktreeRow};
pub use repository::GitRepository;
pub use run::{Git, GitLimits, git_version};
