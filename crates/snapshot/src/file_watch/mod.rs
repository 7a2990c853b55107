//! The file watch: the kernel reports which names changed, so that captures skip the others (R8).
//!
//! Knows folders by their path and names in them, and nothing of what they are. A hint: what it misses
//! (writers through a mapping, writers through a name outside) an audit must find.

#[cfg(target_os = "linux")]
mod inotify;
mod journal_state;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub(crate) use inotify::FileWatcher;
pub use journal_state::JournalState;
pub(crate) use journal_state::{DrainedEvents, NamesByFolder};
#[cfg(not(target_os = "linux"))]
pub(crate) use none::Watch;
