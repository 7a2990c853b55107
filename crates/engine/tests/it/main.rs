//! The engine against a real ledger, real snapshot stores and real repositories.

mod context;
mod exec;
mod files;
mod inbox;
mod permission;
mod place;
mod project;
mod repo;
mod revert;
mod step;
mod support;
mod talk;
mod undo;
mod worktree;
