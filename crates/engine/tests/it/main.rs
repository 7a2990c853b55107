//! The engine against a real ledger, real snapshot stores and real repositories.

mod context;
mod files;
mod inbox;
mod permission;
mod exec;
mod place;
mod project;
mod repo;
mod step;
mod revert;
mod support;
mod talk;
mod undo;
mod worktree;
