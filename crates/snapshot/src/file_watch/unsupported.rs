//! No watch: on systems where none is written, every capture walks.

use super::{Drained, JournalState};
use crate::worktree::{Dir, Worktree};

/// A watch that cannot be had.
pub(crate) enum FileWatcher {}

impl Watch {
    pub(crate) fn start(_: &Worktree) -> Result<Self, JournalState> {
        Err(JournalState::Off)
    }

    pub(crate) fn watch_folder(&self, _: &Dir, _: &[u8]) -> bool {
        true
    }

    pub(crate) fn watch_ignored_folder(&self, _: &Dir, _: &[u8]) {}

    pub(crate) fn unwatch_folder(&self, _: &[u8]) {}

    pub(crate) fn drain(&self) -> Drained {
        Drained::default()
    }

    pub(crate) fn peek(&self, _: std::time::Duration) -> Drained {
        Drained::default()
    }

    pub(crate) fn loss(&self) -> Option<JournalState> {
        None
    }

    pub(crate) fn watched_count(&self) -> usize {
        0
    }
}
