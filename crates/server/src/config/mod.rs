//! OpenCode's own configuration, read and never written: files, agents, commands, providers.
//!
//! Everything is read anew for each question, within limits; what cannot be understood is an error, not
//! an absence. Secrets never leave this module.

mod agent;
mod command;
mod front_matter;
mod jsonc;
mod load;
mod provider;
mod shown;

pub(crate) use agent::AgentConfig;
pub(crate) use command::CommandConfig;
pub(crate) use load::OpenCodeConfig;
pub(crate) use provider::ProviderConfig;
pub(crate) use shown::ShownConfig;
