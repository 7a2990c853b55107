//! The domain model and the rules of Turnstone.
//!
//! Owns ids, the session/message/part model, events, the turn and tool machines, permission rules
//! and the arithmetic of context. Everything here is a pure function of its arguments: `now` and
//! random bytes come from the caller; nothing reads a clock, a file, the environment or a network.

pub mod call_context;
pub mod change;
pub mod context;
pub mod event;
pub mod fork;
pub mod front_matter;
pub mod id;
pub mod jsonc;
pub mod lone_surrogates;
pub mod model;
pub mod operation;
pub mod permission;
pub mod project_match;
pub mod redact;
pub mod rel_path;
pub mod retention;
pub mod revert;
pub mod session_naming;
pub mod terminal_text;
pub mod time;
pub mod tool_state;
pub mod transition_table;
pub mod turn;
pub mod wire;
