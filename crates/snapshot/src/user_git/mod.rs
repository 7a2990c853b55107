//! The user's repository: what it excludes, tracks, converts and has proven. Read, never written (R10).
//!
//! No program is started, no hook or filter runs, no variable is looked at. What cannot be read is
//! said to be unknown; it is never taken for "nothing".

mod attributes;
mod discover;
mod git_config;
mod git_index;
mod object_folders;
mod repository_file;
mod safe_directories;
mod split_index;
mod user_repository;
mod user_settings;

pub(crate) use attributes::ConvertedPaths;
pub use discover::{RepositoryError, RepositoryLocation, discover_repository};
pub(crate) use git_config::GitConfig;
pub(crate) use git_index::{GitIndex, GitIndexEntry};
pub(crate) use object_folders::list_object_folders;
pub use safe_directories::SafeDirectories;
pub(crate) use user_repository::{RepositoryChange, TrackedStatus, UserRepository};
pub use user_settings::{UserGitSettings, find_excludes_file};
