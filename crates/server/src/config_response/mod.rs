//! The configuration in the shapes of OpenCode's clients. Secrets never leave this module.

mod agent_json;
mod command_json;
mod provider_json;
mod shown_config;

pub(crate) use agent_json::{agent_json, agent_v2_json};
pub(crate) use command_json::{command_json, command_v2_json};
pub(crate) use provider_json::{default_models, models_v2_json, provider_json, provider_v2_json};
pub(crate) use shown_config::ShownConfig;
