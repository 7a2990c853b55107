//! No watch: on systems other than Linux every capture walks the worktree.

use super::{DrainedEvents, JournalState};
use crate::worktree::{Worktree, WorktreeDir};

/// A watch that cannot be started.
pub(crate) enum FileWatcher {}

impl FileWatcher {
    pub(crate) fn start(_: &Worktree) -> Result<Self, JournalState> {
        Err(JournalState::Off)
    }

    pub(crate) fn watch_folder(&self, _: &WorktreeDir, _: &[u8]) -> bool {
        true
    }

    pub(crate) fn watch_ignored_folder(&self, _: &WorktreeDir, _: &[u8]) {}

    pub(crate) fn unwatch_folder(&self, _: &[u8]) {}

    pub(crate) fn drain(&self) -> DrainedEvents {
        DrainedEvents::default()
    }

    pub(crate) fn peek(&self, _: std::time::Duration) -> DrainedEvents {
        DrainedEvents::default()
    }

    pub(crate) fn lost_events(&self) -> Option<JournalState> {
        None
    }

    pub(crate) fn watched_count(&self) -> usize {
        0
    }
}
