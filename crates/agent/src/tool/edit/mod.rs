//! The tool `edit`: replaces a text in a file, and forgives what models get wrong about white space.

mod anchored_block;
mod edit_tool;
mod replacement;
mod similarity;
mod strategy;
mod text_lines;

pub use edit_tool::EditTool;
