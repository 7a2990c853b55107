//! Paths inside a worktree, and the names of our own files while they are being swapped in.

pub(crate) use turnstone_core::rel_path::is_git_directory;
pub use turnstone_core::rel_path::{RelPath, RelPathError};

/// What a name below the root may not be called: our own files while they are being swapped in.
const TEMP_PREFIX: &[u8] = b".turnstone-tmp-";

/// True for the name of a temporary file that we write and then rename.
pub(crate) fn is_temp_name(name: &[u8]) -> bool {
    name.starts_with(TEMP_PREFIX)
}

/// The name of a file on its way to its place: of this operation, and of this step of it.
pub(crate) fn temp_name(operation: &str, step: usize) -> Vec<u8> {
    [TEMP_PREFIX, format!("{operation}-{step}").as_bytes()].concat()
}
