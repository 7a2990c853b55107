//! The sources of a configuration: files, folders of Markdown, variables, in the order of their strength.

mod file_access;
mod key_lines;
mod layer;
mod merge;
mod source_order;
mod substitution;

pub(crate) use file_access::read_text_file;
pub use file_access::{MarkdownFile, SourceFolder};
pub(crate) use layer::{LayerOrigin, SettingsLayer};
pub(crate) use merge::merge_tables;
pub use source_order::ConfigSources;
pub(crate) use substitution::has_reference;
