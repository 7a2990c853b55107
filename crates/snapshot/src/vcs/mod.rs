//! The user's repository: what it excludes, tracks, converts and has proven. Read, never written (R10).
//!
//! No program is started, no hook or filter runs, no variable is looked at. What cannot be read is
//! said to be unknown; it is never taken for "nothing".

mod attributes;
mod config;
mod discover;
mod file;
mod index;
mod repo;
mod safe_directories;
mod split;
mod user;

pub(crate) use attributes::Conversions;
pub(crate) use config::Config;
pub use discover::{RepositoryError, RepositoryLocation, discover_repository};
pub(crate) use index::{Entry, Index};
pub(crate) use repo::{Moved, Repo, Tracked};
pub use safe_directories::SafeDirectories;
pub use user::{UserGit, find_excludes_file};
