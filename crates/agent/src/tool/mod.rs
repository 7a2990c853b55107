//! Tools: what a model may call, and what a call may use while it runs.

mod host;
mod reply;

pub use host::{SubagentOutcome, SubagentTask, Tool, ToolAbort, ToolHost, ToolScope};
pub use reply::{ToolAttachment, ToolError, ToolReply};
