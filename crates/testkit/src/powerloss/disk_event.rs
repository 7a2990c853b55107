//! The events of a recording: what changed, what was synced, what was acknowledged.

use std::{ffi::OsString, path::PathBuf};

/// Identifies a file, a directory or a symbolic link of a recording, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// One entry of a directory that appeared, changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameChange {
    /// The directory.
    pub dir: NodeId,
    /// The name in it.
    pub name: OsString,
    /// The node that the name refers to from now on; `None` if it was removed.
    pub node: Option<NodeId>,
}

/// What an event did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Names changed, all at once for a reader.
    Names(Vec<NameChange>),
    /// Bytes were written.
    Write {
        /// The file.
        node: NodeId,
        /// Where the bytes begin.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The file got this size; what is new reads as zero.
    Resize {
        /// The file.
        node: NodeId,
        /// Its size in bytes.
        len: u64,
    },
    /// A range became zero; the size stayed.
    Zero {
        /// The file.
        node: NodeId,
        /// Where the range begins.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A sync of one file or directory returned 0.
    Sync {
        /// What was synced.
        node: NodeId,
    },
    /// A sync of the whole file system returned.
    SyncAll,
    /// Bytes were written to standard output.
    Acknowledge {
        /// The bytes.
        data: Vec<u8>,
    },
}

/// One event, at its place in the global order of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEvent {
    /// When the call started. A change counts from here on: it may reach the disk.
    pub start: usize,
    /// When the call had returned. A sync and an acknowledgement count from here on.
    pub end: usize,
    /// The thread that made the call.
    pub thread: u32,
    /// The name of the system call.
    pub call: String,
    /// The path it was about, relative to the recorded directory; empty for that directory.
    pub path: PathBuf,
    /// What it did.
    pub operation: DiskOperation,
}

impl DiskEvent {
    /// The position from which on it counts.
    #[must_use]
    pub fn position(&self) -> usize {
        match self.operation {
            DiskOperation::Sync { .. }
            | DiskOperation::SyncAll
            | DiskOperation::Acknowledge { .. } => self.end,
            DiskOperation::Names(_)
            | DiskOperation::Write { .. }
            | DiskOperation::Resize { .. }
            | DiskOperation::Zero { .. } => self.start,
        }
    }

    /// Whether its effect had returned to the program before a sync started that began at `sync`.
    pub(crate) fn precedes(&self, sync: usize) -> bool {
        self.end < sync
    }
}
