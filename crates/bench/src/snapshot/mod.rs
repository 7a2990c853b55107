//! Snapshots: ours against the git commands OpenCode runs for the same user action (R36).
//!
//! Ours is a library call in a warm keeper with guard, fsync and verify on. Both sides work on the
//! same generated worktree, in turns; who goes first changes with every round.

mod case;
mod cli;
mod first;
mod memory;
mod ours;
mod peer;
mod process;
mod row;
mod run;
mod steady;
mod tree;
mod undo;

pub(crate) use case::{Case, time_peer, timed};
pub(crate) use memory::measure as measure_memory;
pub(crate) use peer::Peer;
pub(crate) use row::{GOAL_FILES, Goal, Row, short};
pub(crate) use run::{load, refuse_cheating, run, sync_ms};
pub(crate) use tree::Tree;
