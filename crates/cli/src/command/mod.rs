//! The commands, one module each: flags, one call, output.

pub(crate) mod auth;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod diff;
mod dispatch;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod fork;
pub(crate) mod import;
mod imported_snapshots;
pub(crate) mod jump;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod permission;
pub(crate) mod project;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod todo;
pub(crate) mod tour;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod worktree;

pub(crate) use dispatch::run_command;
