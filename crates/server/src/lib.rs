//! The local HTTP API: the routes OpenCode's own clients speak, native routes, and events from the log.
//!
//! Translates and nothing else: a request becomes one call of the engine, its answer becomes JSON in
//! OpenCode's shapes. Owns the listener, who may ask, and the streams. Knows no SQL and no git, decides
//! nothing about sessions, and reads neither clock nor environment: it is told.

mod app;
mod asked;
mod beneath;
mod branch;
mod call;
mod config;
mod connection;
mod doc;
mod error;
mod event;
mod git_pool;
mod guard;
mod held;
mod history;
mod input;
mod once;
mod peer;
mod place;
mod prompt;
mod route;
mod rule_setter;
mod runner;
mod search;
mod serve;
mod settings;
mod shell;
mod show;
mod told;
mod work_pool;

pub use connection::UnixSocketError;
pub use serve::{ServeError, Server};
pub use settings::{Credentials, Folders, Limits, PASSWORD_VARIABLES, Settings, SocketSetting};
