//! The engine against a real ledger, real snapshot stores and real repositories.

mod exec;
mod place;
mod project;
mod repo;
mod support;
mod undo;
mod worktree;
