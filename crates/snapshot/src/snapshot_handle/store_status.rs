//! The status of an open store: its journal, and what its worktree index takes in memory.

use std::sync::TryLockError;

use serde::{Deserialize, Serialize};

use crate::change_journal::JournalStatus;
use crate::snapshot_store::SnapshotStore;

/// What the owner of a store knows of its worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// The journal.
    pub journal: JournalStatus,
    /// Files in the worktree index; zero while a capture or an audit uses it.
    pub files: usize,
    /// About how many bytes of memory index and journal take.
    pub memory: u64,
}

impl StoreStatus {
    /// Reads the status without waiting for a capture or an audit.
    pub(super) fn read(store: &SnapshotStore) -> Self {
        let journal = store.journal().status();
        let (files, index) = match store.worktree_index.try_lock() {
            Ok(index) => (index.file_count(), index.memory_bytes()),
            Err(TryLockError::Poisoned(index)) => {
                let index = index.into_inner();
                (index.file_count(), index.memory_bytes())
            }
            Err(TryLockError::WouldBlock) => (0, 0),
        };
        Self { journal, files, memory: index + journal.memory_bytes() }
    }
}
