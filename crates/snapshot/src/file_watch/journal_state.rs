//! The events of a watch, and whether they are complete.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::stat_cache::EntryName;

/// Whether a capture could use the journal, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// The journal was not requested, or this system has none.
    #[default]
    Off,
    /// It begins with this capture, which had to walk the whole worktree.
    Starting,
    /// It reported what changed.
    On,
    /// The kernel's event queue overflowed; the journal restarts with this capture.
    Overflow,
    /// The kernel allows no more watches (`fs.inotify.max_user_watches`, `max_user_instances`).
    WatchLimit,
    /// The file system does not report changes made on other machines, or none at all.
    NoEvents,
    /// Too many files have a second name, through which they can change unnoticed: all files are checked.
    Linked,
    /// An audit found a change that it had missed (R8): it is not used until the store is opened again.
    Distrusted,
}

/// Names, by the folder they are in.
pub(crate) type NamesByFolder = BTreeMap<Vec<u8>, BTreeSet<EntryName>>;

/// The events since the last call.
#[derive(Debug, Default)]
pub(crate) struct DrainedEvents {
    pub(crate) names: NamesByFolder,
    /// Set if events were lost; then names are missing.
    pub(crate) loss: Option<JournalState>,
}
