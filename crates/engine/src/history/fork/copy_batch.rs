//! Writes the rows of a copied session in transactions of bounded size.

use std::collections::VecDeque;

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::Message;
use turnstone_core::turn::TurnEvent;
use turnstone_store::{
    CloseChangeSet, Context, CopyChangeSet, EndTurn, NewPart, NewTurn, PendingWrite, Store,
    StoreError, Tx,
};

use crate::error::Result;

/// About how many rows are written in one transaction, and how many bytes (R23).
pub(super) const MAX_BATCH_ROWS: usize = 200;
pub(super) const MAX_BATCH_BYTES: usize = 1 << 20;

/// Texts from about this length on are rows of their own.
const LONG_TEXT_BYTES: usize = 2048;

/// Transactions on their way at a time.
const MAX_PENDING_BATCHES: usize = 8;

/// Puts rows into transactions.
pub(super) struct CopyBatchWriter<'a> {
    store: &'a Store,
    ctx: &'a Context,
    session: &'a SessionId,
    /// What goes into the next transaction, and its weight.
    rows: Vec<CopyRow>,
    weight: (usize, usize),
    written: VecDeque<PendingWrite<()>>,
}

impl<'a> CopyBatchWriter<'a> {
    /// Writes rows of `session` under the lease of `ctx`.
    pub(super) fn new(store: &'a Store, ctx: &'a Context, session: &'a SessionId) -> Self {
        let (rows, written) = (Vec::new(), VecDeque::new());
        Self { store, ctx, session, rows, weight: (0, 0), written }
    }

    /// Adds a row; sends the transaction before it if that is full.
    pub(super) fn put(&mut self, row: CopyRow) -> Result<()> {
        let (rows, bytes) = row.weight();
        if !self.rows.is_empty()
            && (self.weight.0 + rows > MAX_BATCH_ROWS || self.weight.1 + bytes > MAX_BATCH_BYTES)
        {
            self.send()?;
        }
        self.weight = (self.weight.0 + rows, self.weight.1 + bytes);
        self.rows.push(row);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.written.len() == MAX_PENDING_BATCHES
            && let Some(first) = self.written.pop_front()
        {
            first.wait()?;
        }
        let (session, rows) = (self.session.clone(), std::mem::take(&mut self.rows));
        self.weight = (0, 0);
        let put = move |tx: &Tx<'_>| rows.iter().try_for_each(|row| row.put(tx, &session));
        self.written.push_back(self.store.write(self.ctx, put));
        fail::fail_point!("engine::fork_copies", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        Ok(())
    }

    /// Sends what is left and waits until everything is stored.
    pub(super) fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.send()?;
        }
        self.written.into_iter().try_for_each(|ticket| ticket.wait().map_err(Into::into))
    }
}

/// What is written of a copy, row by row.
pub(super) enum CopyRow {
    Begin(NewTurn),
    /// A message with its first parts.
    Message(Message, Vec<NewPart>),
    /// Further parts of one message.
    Parts(MessageId, Vec<NewPart>),
    Change(CopyChangeSet, CloseChangeSet),
    End(EndTurn),
}

impl CopyRow {
    fn put(&self, tx: &Tx<'_>, session: &SessionId) -> Result<(), StoreError> {
        match self {
            Self::Begin(new) => {
                tx.turns().begin(new)?;
                tx.turns().transition(session, &new.id, &TurnEvent::Started).map(drop)
            }
            Self::Message(message, parts) => tx.messages().add(message, parts),
            Self::Parts(message, parts) => tx.messages().add_parts(session, message, parts),
            Self::Change(change, close) => tx.change_sets().copy(session, change, close).map(drop),
            Self::End(end) => tx.turns().end_copy(end).map(drop),
        }
    }

    /// About how many rows and bytes it takes.
    fn weight(&self) -> (usize, usize) {
        match self {
            Self::Message(_, parts) => estimate_parts((6, 1024), parts),
            Self::Parts(_, parts) => estimate_parts((1, 0), parts),
            Self::Change(_, close) => (4, close.changes.len() * 256),
            Self::Begin(_) | Self::End(_) => (6, 1024),
        }
    }
}

/// About how many rows and bytes a part takes.
pub(super) const fn estimate_part(body: &str) -> (usize, usize) {
    (2 + 2 * (body.len() / LONG_TEXT_BYTES), body.len())
}

fn estimate_parts(first: (usize, usize), parts: &[NewPart]) -> (usize, usize) {
    parts.iter().fold(first, |sum, part| {
        let (rows, bytes) = estimate_part(&part.body);
        (sum.0 + rows, sum.1 + bytes)
    })
}
