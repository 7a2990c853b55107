//! Finding the file that a process means by a path, and the name that this process has for it.

mod call_location;
mod caller_view;
mod foreign_mounts;
mod path_walk;
mod resolver;
#[cfg(test)]
mod resolver_model;

pub(crate) use call_location::{CallLocation, FileState, ResolveError};
pub(crate) use caller_view::CallerView;
pub(crate) use resolver::{FinalLink, PathResolver};
