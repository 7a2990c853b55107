//! Permission rules: which of them decides whether a tool may act, and why.
//!
//! Owns the wildcard, the order of sources (docs/permissions.md), the built-in rules and the effects of an answer.
//! Asks nobody and stores nothing: pending requests and rules come in, decisions go out.

mod builtin;
mod config;
mod decision;
mod file;
mod gate;
mod reply;
mod rule;
mod wildcard;

pub use builtin::{BuiltinAgent, Directories, agent_rules, defaults, tool_output_rules};
pub use config::{ConfigError, from_config};
pub use decision::{
    Explanation, Layer, Source, Verdict, decide, disabled, explain, explain_layers, inherited,
    ordered,
};
pub use file::from_file;
pub use gate::{Caller, Gate, Role, pass_gate};
pub use reply::{Effects, ReplyError, Resolved, reply};
pub use rule::{Action, Rule};
pub use wildcard::matches;
