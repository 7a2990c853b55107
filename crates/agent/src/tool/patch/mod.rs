//! The tool `apply_patch`: adds, changes, moves and deletes files by one patch.

mod apply_patch_tool;
mod line_sequence;
mod patch_text;
mod patched_files;
mod updated_text;

pub use apply_patch_tool::ApplyPatchTool;
