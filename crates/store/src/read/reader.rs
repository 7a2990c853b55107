//! A reader: one consistent view of the store.

use rusqlite::{Connection, OptionalExtension};
use turnstone_core::id::SessionId;

use crate::blob::BlobDir;
use crate::consumer::ConsumerQueries;
use crate::error::{Result, StoreError};
use crate::read::change_set::ChangeSetQueries;
use crate::read::change_set::OperationQueries;
use crate::read::expiry::UndoExpiryQueries;
use crate::read::feed::FeedQueries;
use crate::read::list::MessageQueries;
use crate::read::list_page::PageQueries;
use crate::read::log::LogQueries;
use crate::read::project::ProjectQueries;
use crate::read::prompt_status::PromptQueries;
use crate::read::request::RequestQueries;
use crate::read::session::SessionQueries;
use crate::read::session_at_boundary::HistoryQueries;
use crate::read::share::ShareQueries;
use crate::read::sync_stream::SyncQueries;
use crate::read::turn::TurnQueries;
use crate::read::wire_json::WireJsonQueries;
use crate::table_row_ids::SessionNum;

/// One consistent view: everything read through it is of the same moment.
#[derive(Clone, Copy)]
pub struct ReadTx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) blobs: &'a BlobDir,
}

impl<'a> ReadTx<'a> {
    /// Reads sessions: rows, pages, status, usage and head.
    #[inline]
    #[must_use]
    pub const fn sessions(&self) -> SessionQueries<'a> {
        SessionQueries { read: *self }
    }

    /// Reads messages and their parts.
    #[inline]
    #[must_use]
    pub const fn messages(&self) -> MessageQueries<'a> {
        MessageQueries { read: *self }
    }

    /// Reads prompts: their status, what waits and what was promoted.
    #[inline]
    #[must_use]
    pub const fn prompts(&self) -> PromptQueries<'a> {
        PromptQueries { read: *self }
    }

    /// Reads turns and the lease of a session.
    #[inline]
    #[must_use]
    pub const fn turns(&self) -> TurnQueries<'a> {
        TurnQueries { read: *self }
    }

    /// Reads projects and their approved rules.
    #[inline]
    #[must_use]
    pub const fn projects(&self) -> ProjectQueries<'a> {
        ProjectQueries { read: *self }
    }

    /// Reads requests to the user and their answers.
    #[inline]
    #[must_use]
    pub const fn requests(&self) -> RequestQueries<'a> {
        RequestQueries { read: *self }
    }

    /// Reads how sessions are shared and what waits to be sent.
    #[inline]
    #[must_use]
    pub const fn shares(&self) -> ShareQueries<'a> {
        ShareQueries { read: *self }
    }

    /// Reads change sets.
    #[inline]
    #[must_use]
    pub const fn change_sets(&self) -> ChangeSetQueries<'a> {
        ChangeSetQueries { read: *self }
    }

    /// Reads operations: undo, redo, jump, fork and eviction.
    #[inline]
    #[must_use]
    pub const fn operations(&self) -> OperationQueries<'a> {
        OperationQueries { read: *self }
    }

    /// Reads which undo data expired and what still pins it.
    #[inline]
    #[must_use]
    pub const fn undo_expiry(&self) -> UndoExpiryQueries<'a> {
        UndoExpiryQueries { read: *self }
    }

    /// Reads the log resolved: each event as the entity it is about.
    #[inline]
    #[must_use]
    pub const fn feed(&self) -> FeedQueries<'a> {
        FeedQueries { read: *self }
    }

    /// Reads the numbered stream of OpenCode's durable events.
    #[inline]
    #[must_use]
    pub const fn sync(&self) -> SyncQueries<'a> {
        SyncQueries { read: *self }
    }

    /// Reads the log as it is stored.
    #[inline]
    #[must_use]
    pub const fn log(&self) -> LogQueries<'a> {
        LogQueries { read: *self }
    }

    /// Reads what a session was at an earlier point of its stream.
    #[inline]
    #[must_use]
    pub const fn history(&self) -> HistoryQueries<'a> {
        HistoryQueries { read: *self }
    }

    /// Reads pages as OpenCode's JSON text, without building the model.
    #[inline]
    #[must_use]
    pub const fn wire_json(&self) -> WireJsonQueries<'a> {
        WireJsonQueries { read: *self }
    }

    /// Reads pages of lists that continue in both directions.
    #[inline]
    #[must_use]
    pub const fn pages(&self) -> PageQueries<'a> {
        PageQueries { read: *self }
    }

    /// Reads the consumers of the log.
    #[inline]
    #[must_use]
    pub const fn consumers(&self) -> ConsumerQueries<'a> {
        ConsumerQueries { read: *self }
    }

    pub(crate) fn session_num(&self, id: &SessionId) -> Result<SessionNum> {
        self.find_session_num(id)?.ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    pub(crate) fn find_session_num(&self, id: &SessionId) -> Result<Option<SessionNum>> {
        Ok(self
            .conn
            .prepare_cached("SELECT num FROM session WHERE id = ?1 AND hidden = 0")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?)
    }
}

/// Parses an id that was checked when it was stored.
pub(crate) fn parse_id<T>(text: String) -> Result<T>
where
    T: TryFrom<String>,
    T::Error: std::fmt::Display,
{
    T::try_from(text).map_err(|e| StoreError::Internal(e.to_string()))
}
