//! OpenCode's own configuration, read and never written: files, agents, commands, providers.
//!
//! Everything is read anew for each question, within limits; what cannot be understood is an error, not
//! an absence. Secrets never leave this module.

mod agent;
mod command;
mod front;
mod jsonc;
mod load;
mod provider;
mod shown;

pub(crate) use agent::Agent;
pub(crate) use command::Command;
pub(crate) use load::Config;
pub(crate) use provider::Provider;
pub(crate) use shown::ShownConfig;
