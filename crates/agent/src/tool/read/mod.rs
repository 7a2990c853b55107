//! The tool `read`: files page by page, directories, images and documents.

mod content_kind;
mod directory_page;
mod line_page;
mod missing_file;
mod read_tool;

pub use read_tool::ReadTool;
