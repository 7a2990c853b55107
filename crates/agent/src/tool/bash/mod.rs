//! The tool `bash`: runs a command line, and asks first for what can be seen in it.

mod bash_tool;
mod command_line;
mod command_output;
mod command_prefix;
mod environment;
mod shell_word;

pub use bash_tool::BashTool;
pub use environment::command_environment;
pub use environment::find_command_shell;
