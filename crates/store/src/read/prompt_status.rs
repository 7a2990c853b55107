//! Prompts on their way: what waits in the inboxes, and which turn took a prompt up.

use crate::mutation::{PromptDelivery, PromptReceipt};
use rusqlite::OptionalExtension;
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::time::LogCursor;
use turnstone_core::time::SessionSeq;
use turnstone_core::turn::TurnState;

use super::reader::{ReadTx, parse_id};
use crate::error::{Result, StoreError};

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptStatus {
    /// It waits in the inbox.
    Waiting,
    /// A turn took it up, and is in this state.
    InTurn(TurnId, TurnState),
}

/// Reads prompts: their status, what waits and what was promoted.
#[derive(Clone, Copy)]
pub struct PromptQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl PromptQueries<'_> {
    /// What became of a prompt; nothing for a message that asks for no answer (R29).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn status(&self, session: &SessionId, message: &MessageId) -> Result<Option<PromptStatus>> {
        let num = self.read.session_num(session)?;
        let begun = self.find_turn(
            "SELECT id, state FROM turn WHERE session = ?1 AND message = ?2
             ORDER BY num DESC LIMIT 1",
            (num, message.as_str()),
        )?;
        if begun.is_some() {
            return Ok(begun);
        }
        let promoted: Option<Option<i64>> = self
            .read
            .conn
            .prepare_cached("SELECT promoted FROM input WHERE session = ?1 AND message = ?2")?
            .query_row((num, message.as_str()), |row| row.get(0))
            .optional()?;
        match promoted {
            None => Ok(None),
            Some(None) => Ok(Some(PromptStatus::Waiting)),
            // It steered the turn that was open at that moment.
            Some(Some(seq)) => self.find_turn(
                "SELECT id, state FROM turn WHERE session = ?1 AND num <
                   (SELECT cursor FROM event WHERE event.session = ?1 AND event.seq = ?2)
                 ORDER BY num DESC LIMIT 1",
                (num, seq),
            ),
        }
    }

    fn find_turn(
        &self,
        sql: &'static str,
        by: impl rusqlite::Params,
    ) -> Result<Option<PromptStatus>> {
        let row: Option<(String, String)> = self
            .read
            .conn
            .prepare_cached(sql)?
            .query_row(by, |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        row.map(|(id, text)| {
            let state = TurnState::parse(&text)
                .ok_or_else(|| StoreError::Internal(format!("turn state {text:?}")))?;
            Ok(PromptStatus::InTurn(parse_id(id)?, state))
        })
        .transpose()
    }

    /// The newest answer of a turn, whole or not.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn last_answer(&self, session: &SessionId, turn: &TurnId) -> Result<Option<MessageId>> {
        let num = self.read.session_num(session)?;
        let id: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT message.id FROM message JOIN turn ON message.turn = turn.num
                 WHERE turn.session = ?1 AND turn.id = ?2 AND message.session = ?1
                   AND message.num > turn.num AND message.role = 'assistant'
                 ORDER BY message.num DESC LIMIT 1",
            )?
            .query_row((num, turn.as_str()), |row| row.get(0))
            .optional()?;
        id.map(parse_id).transpose()
    }

    /// The newest prompt of the inbox that an open turn has taken up since it began; nothing if
    /// nobody steered it (R29).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn newest_steering(&self, session: &SessionId, turn: &TurnId) -> Result<Option<MessageId>> {
        let num = self.read.session_num(session)?;
        let id: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT input.message FROM input
                   JOIN event ON event.session = ?1 AND event.seq = input.promoted
                 WHERE input.session = ?1 AND event.cursor >
                   (SELECT num FROM turn WHERE session = ?1 AND id = ?2)
                 ORDER BY event.cursor DESC LIMIT 1",
            )?
            .query_row((num, turn.as_str()), |row| row.get(0))
            .optional()?;
        id.map(parse_id).transpose()
    }

    /// The first prompt an actor wrote at a place in the log or behind it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn first_since(
        &self,
        session: &SessionId,
        at: LogCursor,
        actor: &str,
    ) -> Result<Option<MessageId>> {
        let num = self.read.session_num(session)?;
        let id: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT id FROM message
                 WHERE session = ?1 AND num >= ?2 AND role = 'user'
                   AND actor IN (SELECT num FROM actor WHERE name = ?3
                                   OR substr(name, 1, length(?3) + 1) = ?3 || char(10))
                 ORDER BY num LIMIT 1",
            )?
            .query_row((num, at.0, actor), |row| row.get(0))
            .optional()?;
        id.map(parse_id).transpose()
    }

    /// The turn that a message was said in as an answer; nothing for prompts and for what no turn said.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`].
    pub fn turn_of_answer(
        &self,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<Option<TurnId>> {
        let num = self.read.session_num(session)?;
        let turn: Option<Option<String>> = self
            .read
            .conn
            .prepare_cached(
                "SELECT turn.id FROM message
                 LEFT JOIN turn ON turn.num = message.turn AND role = 'assistant'
                 WHERE message.id = ?1 AND message.session = ?2",
            )?
            .query_row((message.as_str(), num), |row| row.get(0))
            .optional()?;
        let missing =
            || StoreError::NoMessage { session: session.clone(), message: message.clone() };
        turn.ok_or_else(missing)?.map(parse_id).transpose()
    }

    /// The sessions with prompts that no turn has taken up, the longest waiting first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_waiting(&self) -> Result<Vec<SessionId>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id FROM input JOIN session ON session.num = input.session
             WHERE input.promoted IS NULL AND session.hidden = 0
             GROUP BY session.num ORDER BY min(input.num)",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(parse_id(row.get(0)?)?);
        }
        Ok(found)
    }

    /// The prompts of a session that no turn has taken up, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn waiting(&self, session: &SessionId) -> Result<Vec<PromptReceipt>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT message, delivery, admitted FROM input
             WHERE session = ?1 AND promoted IS NULL ORDER BY num",
        )?;
        let mut rows = statement.query([num])?;
        let mut waiting = Vec::new();
        while let Some(row) = rows.next()? {
            let queue = row.get::<_, String>(1)? == "queue";
            waiting.push(PromptReceipt {
                message: parse_id(row.get(0)?)?,
                delivery: if queue { PromptDelivery::Queue } else { PromptDelivery::Steer },
                admitted: SessionSeq(row.get(2)?),
                promoted: None,
            });
        }
        Ok(waiting)
    }
}
