//! The tool `bash`: runs a command line, and asks first for what can be seen in it.

mod bash_tool;
mod command_line;
mod command_output;
mod command_prefix;
mod environment;
mod shell_word;
mod watched_command;

pub use bash_tool::BashTool;
pub(crate) use command_output::CommandOutput;
pub(crate) use environment::call_environment;
pub use environment::{command_environment, find_command_shell};
pub(crate) use watched_command::{GRACE, run_watched};
