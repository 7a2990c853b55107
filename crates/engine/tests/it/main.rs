//! The engine against a real ledger, real snapshot stores and real repositories.

mod context;
mod diff;
mod exec;
mod expire;
mod files;
mod forget;
mod fork;
mod inbox;
mod jump;
mod permission;
mod place;
mod project;
mod random;
mod repo;
mod revert;
mod step;
mod support;
mod talk;
mod undo;
mod upkeep;
mod worktree;
