//! Agents and commands: the built-in ones, and those that people configure.

mod agent_profile;
mod agent_rules;
mod builtin_prompts;
mod command_definition;

pub use agent_profile::{AgentMode, AgentProfile};
pub use command_definition::CommandDefinition;
