//! The tables of a session and the rules of their ids.

use super::object_ref::{ObjectRef, RemoteRef, WeakRemote};
use super::promise_cell::{PromiseCell, WeakPromiseCell};
use super::send_window::SentChunk;
use super::stream_pipe::{ReadEnd, StreamPipe};
use crate::error::RpcError;
use crate::id_hash::IdMap;

/// Something the peer may refer to.
pub(super) struct ExportEntry {
    pub(super) hook: ObjectRef,
    pub(super) count: u64,
    /// The peer knows, or will know, how it settled.
    pub(super) pulled: bool,
    /// What the peer waits for, until it is sent.
    owed: Option<OwedOutcome>,
    /// Released by itself once its outcome is sent: it came as a `stream`.
    pub(super) once: bool,
    /// The other end of a pipe, until it is claimed.
    pub(super) readable: Option<ReadEnd>,
}

impl ExportEntry {
    pub(super) fn new(hook: ObjectRef) -> Self {
        Self { hook, count: 1, pulled: false, owed: None, once: false, readable: None }
    }
}

/// Why the peer waits for an outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OwedOutcome {
    /// It asked for it.
    Pull,
    /// It was promised.
    Promise,
}

/// Something of the peer's.
pub(super) struct ImportEntry {
    pub(super) remote: WeakRemote,
    /// How often the peer introduced it: so much is given back.
    pub(super) introductions: u64,
    /// Settles when the peer resolves it.
    pub(super) cell: Option<WeakPromiseCell>,
}

/// A chunk that the peer has not answered yet.
pub(super) struct UnackedChunk {
    pub(super) pipe: StreamPipe,
    pub(super) sent: SentChunk,
    pub(super) is_end: bool,
}

/// Both tables, and the counters behind the ids.
#[derive(Default)]
pub(super) struct SessionTables {
    pub(super) exports: IdMap<i64, ExportEntry>,
    pub(super) imports: IdMap<i64, ImportEntry>,
    pub(super) unacked: IdMap<i64, UnackedChunk>,
    /// Pushes, streams and pipes of the peer so far.
    pushed: i64,
    /// Our own so far.
    pushes: i64,
    /// Exports that we introduced so far.
    introduced: i64,
    /// Outcomes that the peer asked for and does not have.
    pulls: usize,
    /// Outcomes that the peer was promised and does not have.
    promises: usize,
}

impl SessionTables {
    /// Enters what the peer pushed under its next positive id.
    pub(super) fn add_pushed(&mut self, export: ExportEntry) -> i64 {
        self.pushed += 1;
        self.exports.insert(self.pushed, export);
        self.pushed
    }

    /// Enters something of ours under a new negative id: never one the peer has seen.
    pub(super) fn add_export(&mut self, hook: ObjectRef) -> i64 {
        self.introduced -= 1;
        self.exports.insert(self.introduced, ExportEntry::new(hook));
        self.introduced
    }

    /// Returns the id of the message we are about to send.
    pub(super) fn next_push(&mut self) -> i64 {
        self.pushes += 1;
        self.pushes
    }

    pub(super) fn add_import(&mut self, remote: &RemoteRef, cell: Option<&PromiseCell>) {
        let import = ImportEntry {
            remote: remote.downgrade(),
            introductions: 1,
            cell: cell.map(PromiseCell::downgrade),
        };
        self.imports.insert(remote.id(), import);
    }

    /// Takes introductions back; returns the export when it was the last.
    pub(super) fn release(&mut self, id: i64, count: u64) -> Result<Option<ExportEntry>, RpcError> {
        let Some(export) = self.exports.get_mut(&id) else {
            return Err(RpcError::new("Error", format!("no such export ID: {id}")));
        };
        let Some(left) = export.count.checked_sub(count) else {
            let message = format!("refcount would go negative: {} < {count}", export.count);
            return Err(RpcError::new("Error", message));
        };
        export.count = left;
        if left > 0 {
            return Ok(None);
        }
        // The peer does not wait for it any more.
        let debt = export.owed.take();
        self.count_settled(debt);
        Ok(self.exports.remove(&id))
    }

    /// Notes that the peer waits for the outcome of an export.
    pub(super) fn mark_owed(&mut self, id: i64, debt: OwedOutcome) {
        let Some(export) = self.exports.get_mut(&id) else {
            return;
        };
        export.pulled = true;
        export.owed = Some(debt);
        match debt {
            OwedOutcome::Pull => self.pulls += 1,
            OwedOutcome::Promise => self.promises += 1,
        }
    }

    /// Notes that the outcome is being sent; returns the export if the peer waits for it.
    pub(super) fn take_owed(&mut self, id: i64) -> Option<&ExportEntry> {
        let debt = self.exports.get_mut(&id)?.owed.take()?;
        self.count_settled(Some(debt));
        self.exports.get(&id)
    }

    fn count_settled(&mut self, debt: Option<OwedOutcome>) {
        match debt {
            Some(OwedOutcome::Pull) => self.pulls -= 1,
            Some(OwedOutcome::Promise) => self.promises -= 1,
            None => {}
        }
    }

    /// Counts the outcomes that the peer waits for, for that reason.
    pub(super) fn owed_count(&self, debt: OwedOutcome) -> usize {
        match debt {
            OwedOutcome::Pull => self.pulls,
            OwedOutcome::Promise => self.promises,
        }
    }

    /// Returns the exports whose outcomes the peer waits for.
    pub(super) fn owed_exports(&self) -> Vec<i64> {
        let waited = self.exports.iter().filter(|(_, export)| export.owed.is_some());
        waited.map(|(id, _)| *id).collect()
    }

    /// Takes all exports: the session is over.
    pub(super) fn take_exports(&mut self) -> IdMap<i64, ExportEntry> {
        (self.pulls, self.promises) = (0, 0);
        std::mem::take(&mut self.exports)
    }
}
