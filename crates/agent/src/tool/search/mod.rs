//! The tools `glob` and `grep`: files by name and lines by content, as ripgrep finds them.

mod content_search;
mod file_walk;
mod glob_tool;
mod grep_tool;

pub use glob_tool::GlobTool;
pub use grep_tool::GrepTool;
