//! The configuration of a directory as the loop needs it: agents, models with their providers, tools, instructions.
//!
//! Everything comes from the crate `config`, which decides what of a project is trusted and which key goes where.
//! Nothing here reads the environment or a clock: the program passes both as a [`RunEnvironment`].

mod bounded_tool;
mod directory_configuration;
mod hooked_tool;
mod instruction_files;
mod instruction_patterns;
mod model_setup;
mod nearby_files;
mod network;
mod provider_cache;
mod run_settings;
mod settings_failure;
mod skill_files;
mod tool_set;

pub use directory_configuration::DirectoryConfiguration;
pub use run_settings::{ConfiguredRunSettings, RunEnvironment};
pub use settings_failure::model_failure_text;
