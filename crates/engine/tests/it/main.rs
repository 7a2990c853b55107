//! The engine against a real ledger, real snapshot stores and real repositories.

mod compaction;
mod context;
mod diff;
mod exact;
mod exec;
mod files;
mod fork;
mod fork_files;
mod inbox;
mod index;
mod jump;
mod permission;
mod place;
mod process;
mod project;
mod random;
mod repo;
mod revert;
mod step;
mod support;
mod talk;
mod undo;
mod weakness;
mod worktree;
