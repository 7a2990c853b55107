//! Projects and worktrees: which project a directory belongs to, and the sessions in it.

pub(crate) mod project;
pub(crate) mod project_lookup;
pub(crate) mod repository;
pub(crate) mod session_adoption;
pub(crate) mod worktree;
