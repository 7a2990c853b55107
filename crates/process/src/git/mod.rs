//! Git for worktrees: no program that a repository or its surroundings name is ever started.
//!
//! The caller names the repository; git looks for none. One function builds every environment. Commands
//! that touch files see no configuration of the repository, those that manage worktrees see it without
//! the programs it names. Never fetches, never asks, runs no hooks and no filters.
//!
//! Before a command starts, the files it will read are looked at: pipes and devices are refused. While it
//! runs it has limits of time, idleness, memory and output; the caller and the end of the program cancel
//! it.

mod cancellation;
mod child;
mod concurrency;
mod configuration;
mod diff;
mod environment;
mod error;
mod history;
mod included_files;
mod interrupt;
mod isolation;
mod operation;
mod parse;
mod program;
mod progress;
mod repository;
mod repository_check;
mod run;
mod worktrees;

pub use cancellation::{GitCancellation, end_git_commands};
pub use child::GitLimits;
pub use environment::GitEnvironment;
pub use error::GitError;
pub use history::GitHistory;
pub use interrupt::end_git_on_signals;
pub use parse::{ChangeKind, ChangedFile, GitStatusEntry, GitWorktreeRow, WorktreeCheckout};
pub use repository::GitRepository;
pub use run::{Git, git_version};
pub use worktrees::{GitWorktreeRequest, GitWorktrees};
