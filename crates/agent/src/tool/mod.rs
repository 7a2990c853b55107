//! Tools: what a model may call, and what a call may use while it runs.

mod accessed_path;
mod bash;
mod bounded_output;
mod edit;
mod file_change;
mod file_text;
mod hook_command;
mod host;
mod input;
mod patch;
mod question;
mod read;
mod registry;
mod reply;
mod schema;
mod search;
mod settings;
mod skill;
mod task;
mod text_diff;
mod todo_write;
mod web;
mod write;

pub(crate) use accessed_path::permission_ask;
pub use bash::{BashTool, command_environment, find_command_shell};
pub use bounded_output::{limit_output, remove_old_outputs};
pub use edit::EditTool;
pub use hook_command::{CommandFormatter, FormatterCommand, HookCommand, HookMoment, run_hook};
pub use host::{AbortWait, SubagentOutcome, SubagentTask, Tool, ToolAbort, ToolHost, ToolScope};
pub use patch::ApplyPatchTool;
pub use question::QuestionTool;
pub use read::ReadTool;
pub use registry::{builtin_tools, prefers_patches};
pub(crate) use reply::into_fields;
pub use reply::{ToolAttachment, ToolError, ToolReply};
pub use search::{GlobTool, GrepTool};
pub use settings::{
    CommandSettings, FileFormatter, InstructionFile, NearbyInstructions, ToolOutputLimits,
    ToolSettings,
};
pub use skill::{SkillInfo, SkillTool};
pub use task::{SubagentInfo, TaskTool};
pub use todo_write::TodoWriteTool;
pub use web::{FetchedPage, PageFetcher, WebFetchTool, WebPageRequest};
pub use write::WriteTool;
