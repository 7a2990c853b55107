//! The scripted model: answers come from a file instead of a network. Format: docs/models.md.

mod provider;
mod script;
mod script_file;

pub use provider::ScriptedProvider;
pub use script_file::ScriptError;

#[cfg(test)]
mod tests;
