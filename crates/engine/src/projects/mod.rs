//! Projects and worktrees: which project a directory belongs to, and the sessions in it.

mod assembly;
pub(crate) mod directory_location;
pub(crate) mod git_patch;
pub(crate) mod project;
pub(crate) mod project_lookup;
pub(crate) mod project_records;
pub(crate) mod repository;
pub(crate) mod repository_changes;
pub(crate) mod session_adoption;
pub(crate) mod worktree;

pub(crate) use assembly::assemble;
pub use project::Projects;
