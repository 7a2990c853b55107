//! OpenCode's own configuration, read and never written: files, agents, commands, providers.
//!
//! Everything is read again for each request, within limits; what cannot be parsed is an error, not
//! an absence. Secrets never leave this module.

mod agent;
mod command;
mod jsonc;
mod load;
mod provider;
mod redacted;

pub(crate) use agent::AgentConfig;
pub(crate) use command::CommandConfig;
pub(crate) use load::{OpenCodeConfig, global_config, project_config};
pub(crate) use provider::ProviderConfig;
pub(crate) use redacted::ShownConfig;
