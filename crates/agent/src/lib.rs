//! The agent: models and their wires, tools, and the loop that runs a prompt.

pub mod configuration;
pub mod mcp;
pub mod model;
pub mod run;
pub mod tool;
pub mod wire;
