//! The watch: the kernel tells which names changed, so that nobody need look at the others (R8).
//!
//! Knows folders by their path and names in them, and nothing of what they are. A hint: what it misses
//! (writers through a mapping, writers through a name outside) an audit must find.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod none;
mod state;

#[cfg(target_os = "linux")]
pub(crate) use inotify::Watch;
#[cfg(not(target_os = "linux"))]
pub(crate) use none::Watch;
pub use state::JournalState;
pub(crate) use state::{Drained, Names};
