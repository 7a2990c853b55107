//! Tools of MCP servers: local programs and remote servers.
//!
//! The interface is synchronous; the runtime behind it is private to this crate. Nothing is read from the
//! environment: programs, variables and addresses are settings.
//!
//! Whatever a server sends is hostile: messages, lists, texts and rates are bounded, control characters are removed,
//! and nothing that a server says about itself grants it anything.

mod call_control;
mod client_handler;
mod clock;
mod connection;
mod error;
mod http;
mod inbox;
mod local;
mod runtime;
mod safe_text;
mod server_entry;
mod server_pool;
mod server_settings;
mod server_tool;
mod tool_result;

pub use call_control::{CallControl, CallProgress};
pub use error::ToolServerError;
pub use safe_text::{clean_line, clean_text};
pub use server_entry::{ToolServer, ToolServerStatus};
pub use server_pool::{ToolServerPool, ToolServerPoolSettings};
pub use server_settings::{ToolServerSettings, ToolServerTransport};
pub use server_tool::ServerTool;
pub use tool_result::{ToolResultFile, ToolServerResult};
