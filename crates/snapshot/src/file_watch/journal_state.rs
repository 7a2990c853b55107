//! What a watch has heard, and what it is worth.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::stat_cache::EntryName;

/// What the journal was worth for a capture, and why it was not used if it was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// The journal was not requested, or this system has none.
    #[default]
    Off,
    /// It begins with this capture, which had to look at everything.
    Starting,
    /// It reported what changed.
    On,
    /// The kernel's event queue overflowed; the journal restarts with this capture.
    Overflow,
    /// The kernel allows no more watches (`fs.inotify.max_user_watches`, `max_user_instances`).
    WatchLimit,
    /// The file system tells nothing of changes made elsewhere, or nothing at all.
    NoEvents,
    /// So many files have a second name, through which they change unseen, that all are looked at.
    Linked,
    /// An audit found a change it had missed (R8): it is not believed until the store is opened again.
    Distrusted,
}

/// Names, by the folder they are in.
pub(crate) type NamesByFolder = BTreeMap<Vec<u8>, BTreeSet<EntryName>>;

/// What was heard since it was last asked.
#[derive(Debug, Default)]
pub(crate) struct DrainedEvents {
    pub(crate) names: NamesByFolder,
    /// Set if something was not heard; then the names are not all.
    pub(crate) loss: Option<JournalState>,
}
