//! Tools of MCP servers: their names, who allows them, and what was seen of them before.

mod mcp_tool;
mod mcp_tool_set;
mod server_configuration;
mod tool_names;
mod tool_pins;

pub use mcp_tool_set::{McpServerReport, McpState, McpToolReport, McpToolSet};
pub use server_configuration::McpPlace;
pub use tool_pins::{ToolPin, ToolPinError, ToolPins};
