//! Snapshots: ours against the git commands OpenCode runs for the same user action (R36).
//!
//! Ours is a library call in a warm keeper with guard, fsync and verify on. Both sides work on the
//! same generated worktree, in turns; who goes first changes with every round.

mod benchmark_case;
mod cli_capture;
mod first_capture;
mod generated_tree;
mod git_process;
mod opencode_git;
mod operation_timings;
mod own_store;
mod peak_memory;
mod run;
mod steady_state;
mod undo;
mod walk_comparison;

pub(crate) use benchmark_case::{BenchmarkCase, measure_millis, time_peer};
pub(crate) use generated_tree::GeneratedTree;
pub(crate) use opencode_git::OpenCodeGit;
pub(crate) use operation_timings::{GOAL_FILES, OperationTimings, PerformanceGoal, format_millis};
pub(crate) use peak_memory::run_child_workload as measure_memory;
pub(crate) use run::{machine_load, measure_sync_millis, require_valid_setup, run};
pub(crate) use walk_comparison::run as compare_walks;
