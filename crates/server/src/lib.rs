//! The local HTTP API: the routes OpenCode's own clients speak, native routes, and events from the log.
//!
//! Translates and nothing else: a request becomes one call of the engine, its answer becomes JSON in
//! OpenCode's shapes. Owns the listener, who may ask, and the streams. Knows no SQL and no git, decides
//! nothing about sessions, and reads neither clock nor environment: both are passed in.

mod app;
mod branch_watch;
mod config_response;
mod configuration;
mod confined_path;
mod connection;
mod diff_dedup;
mod doc;
mod driven_turn;
mod error;
mod event;
mod file_access;
mod file_search;
mod git_pool;
mod guard;
mod idempotency;
mod idle_maintenance;
mod name_order;
mod peer;
mod project_directory;
mod prompt;
mod prompt_runner;
mod pty;
mod random;
mod request_context;
mod request_input;
mod request_log;
mod request_scope;
mod response_encoding;
mod route;
mod rule_setter;
mod runner_registry;
mod serve;
mod session_revert;
mod settings;
mod shell_command;
mod wire_json;
mod work_pool;

pub use connection::UnixSocketError;
pub use prompt_runner::{McpServerStatus, PromptRunner, PromptRunnerHost, SkillSummary};
pub use serve::{HttpServer, ServeError};
pub use settings::{
    ClientFolders, Credentials, PASSWORD_VARIABLES, RequestLimits, ServerSettings, SocketSetting,
};
