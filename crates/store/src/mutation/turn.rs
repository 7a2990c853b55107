//! Turns: begun, moved and ended here, each in one transaction.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use serde_json::{Number, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{
    Message, MessageBody, MessageFailure, MessageFailureKind, Part, PartBody, SessionStatus,
};
use turnstone_core::time::SessionSeq;
use turnstone_core::tool_state;
use turnstone_core::turn::{TurnEvent, TurnOutcome, TurnState};

use super::open_step::finish_open_step;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{
    PartLocation, find_open_turn, is_abort_requested, load_message, load_part, load_session,
    parse_stored,
};
use crate::table_row_ids::{SessionNum, TurnNum};
use crate::tx::{AppendPermission, EventDraft, Tx};

/// A turn about to begin: its prompt, agent and model are in the message (R28).
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Names the turn.
    pub id: TurnId,
    /// The user message that begins it.
    pub message: Message,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// How a turn ends.
#[derive(Clone, Debug)]
pub struct EndTurn {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// Why, when it did not end well.
    pub error: Option<MessageFailure>,
}

/// Whether ending a turn changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnEndOutcome {
    /// It ended by this call, at this place in the stream.
    Now(SessionSeq),
    /// It had ended in the same way before.
    Already,
}

/// Whose hand ends a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnder {
    /// The holder of the lease.
    Owner,
    /// Recovery, after the owner died.
    Recovery,
    /// A fork, for the copy of a turn that ended in the original.
    Fork,
}

impl TurnEnder {
    const fn append_permission(self) -> AppendPermission {
        match self {
            Self::Owner | Self::Fork => AppendPermission::ByKind,
            Self::Recovery => AppendPermission::Unrestricted,
        }
    }
}

/// Begins, moves and ends turns.
#[derive(Clone, Copy)]
pub struct TurnMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl TurnMutations<'_> {
    /// Begins a turn: turn, user message and parts, all or nothing. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while another turn of the session is open, or an operation (R45).
    pub fn begin(&self, new: &NewTurn) -> Result<SessionSeq> {
        let session = self.tx.session_num(&new.message.session)?;
        let agent = match &new.message.body {
            MessageBody::User(user) => json!({ "agent": user.agent, "model": user.model }),
            MessageBody::Assistant(_) => {
                return Err(StoreError::Invalid("a turn begins with a user message".to_owned()));
            }
        };
        if let Some((num, owner, _)) = self.find(&new.id)? {
            return self.repeated_begin_seq(num, owner, session, new);
        }
        if find_open_turn(self.tx.conn, session)?.is_some()
            || self.tx.operations().is_in_operation(session)?
        {
            return Err(StoreError::Busy(new.message.session.clone()));
        }
        let payload = json!({ "id": new.id, "message": new.message.id, "by": agent });
        let draft = EventDraft::new(Some(session), EventKind::TurnAccepted, None).unrestricted();
        let at = self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        self.tx.messages().put_with_permission(
            &new.message,
            AppendPermission::Unrestricted,
            Some(TurnNum(at.cursor.0)),
        )?;
        for part in &new.parts {
            if part.message != new.message.id {
                return Err(StoreError::Invalid("a part of another message".to_owned()));
            }
            self.tx.messages().put_part_with_permission(part, AppendPermission::Unrestricted)?;
        }
        Ok(at.seq.unwrap_or_default())
    }

    fn repeated_begin_seq(
        &self,
        num: TurnNum,
        owner: SessionNum,
        session: SessionNum,
        new: &NewTurn,
    ) -> Result<SessionSeq> {
        let (message, seq): (String, i64) = self
            .tx
            .conn
            .prepare_cached(
                "SELECT turn.message, event.seq FROM turn JOIN event ON event.cursor = turn.num
                 WHERE turn.num = ?1",
            )?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if owner == session && message == new.message.id.as_str() {
            return Ok(SessionSeq(seq));
        }
        Err(StoreError::Conflict { kind: "turn", id: new.id.to_string() })
    }

    /// `(num, session, state)` of a turn.
    pub(super) fn find(&self, id: &TurnId) -> Result<Option<(TurnNum, SessionNum, TurnState)>> {
        let row: Option<(TurnNum, SessionNum, String)> = self
            .tx
            .conn
            .prepare_cached("SELECT num, session, state FROM turn WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        row.map(|(num, session, text)| {
            let state = TurnState::parse(&text)
                .ok_or_else(|| StoreError::Internal(format!("turn state {text:?}")))?;
            Ok((num, session, state))
        })
        .transpose()
    }

    /// The state of a turn, if it exists.
    pub(crate) fn find_state(&self, id: &TurnId) -> Result<Option<TurnState>> {
        Ok(self.find(id)?.map(|found| found.2))
    }

    pub(super) fn require(
        &self,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<(TurnNum, SessionNum, TurnState)> {
        let owner = self.tx.session_num(session)?;
        match self.find(turn)? {
            Some(found) if found.1 == owner => Ok(found),
            _ => Err(StoreError::NotFound { kind: "turn", id: turn.to_string() }),
        }
    }

    /// Moves an open turn: started, asked, answered. A repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if the table does not allow it.
    pub fn transition(
        &self,
        session: &SessionId,
        turn: &TurnId,
        event: &TurnEvent,
    ) -> Result<TurnState> {
        let (num, owner, before) = self.require(session, turn)?;
        let kind = match event {
            TurnEvent::Started => EventKind::TurnStarted,
            TurnEvent::Asked => EventKind::TurnAsked,
            TurnEvent::Answered => EventKind::TurnAnswered,
            TurnEvent::Ended { .. } => {
                return Err(StoreError::Invalid("a turn is ended with `end_turn`".to_owned()));
            }
        };
        let after = before.apply(event)?;
        if after != before {
            let payload = PreparedPayload::new(&json!({ "id": turn }))?;
            self.tx.append(&EventDraft::new(Some(owner), kind, Some(num.0)).payload(payload))?;
        }
        Ok(after)
    }

    /// Shows that the open turn waits for its next attempt.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if the turn has ended.
    pub fn set_retry(
        &self,
        session: &SessionId,
        turn: &TurnId,
        status: &SessionStatus,
    ) -> Result<()> {
        let (num, owner, state) = self.require(session, turn)?;
        state.apply(&TurnEvent::Started)?;
        let payload = PreparedPayload::new(&json!({ "id": turn, "status": status }))?;
        self.tx.append(
            &EventDraft::new(Some(owner), EventKind::StatusRetrying, Some(num.0)).payload(payload),
        )?;
        Ok(())
    }

    /// Asks the process that runs the open turn of a session to abort it; needs no lease (R27, R45).
    ///
    /// Returns the turn, or nothing if none is open. Asking again changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn request_abort(&self, session: &SessionId) -> Result<Option<TurnId>> {
        let num = self.tx.session_num(session)?;
        let Some(turn) = find_open_turn(self.tx.conn, num)? else {
            return Ok(None);
        };
        let id: String = self
            .tx
            .conn
            .prepare_cached("SELECT id FROM turn WHERE num = ?1")?
            .query_row([turn], |row| row.get(0))?;
        let id: TurnId = parse_stored(id)?;
        if !is_abort_requested(self.tx.conn, num, turn)? {
            let draft =
                EventDraft::new(Some(num), EventKind::TurnAbortAsked, Some(turn.0)).unrestricted();
            self.tx.append(&draft.payload(PreparedPayload::new(&json!({ "id": id }))?))?;
        }
        Ok(Some(id))
    }

    /// Ends a turn: closes its open tools and texts, completes its messages, withdraws its
    /// requests and appends the event, all or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if it has ended differently.
    pub fn end(&self, end: &EndTurn) -> Result<TurnEndOutcome> {
        self.end_by(end, TurnEnder::Owner)
    }

    /// Ends a copied turn as the original ended. A step that the copy does not hold whole gets neither usage nor patch:
    /// they belong to the original (W8).
    ///
    /// # Errors
    ///
    /// As [`TurnMutations::end`].
    pub fn end_copy(&self, end: &EndTurn) -> Result<TurnEndOutcome> {
        self.end_by(end, TurnEnder::Fork)
    }

    pub(crate) fn end_by(&self, end: &EndTurn, hand: TurnEnder) -> Result<TurnEndOutcome> {
        let (num, session, before) = self.require(&end.session, &end.turn)?;
        let event = TurnEvent::Ended { outcome: end.outcome };
        let after = before.apply(&event)?;
        if after == before {
            return Ok(TurnEndOutcome::Already);
        }
        self.close_parts(session, end, hand)?;
        self.close_messages(num, end, hand)?;
        self.clear_compacting(session, hand)?;
        self.tx.requests().withdraw_all(session)?;
        let payload =
            json!({ "id": end.turn, "outcome": end.outcome, "error": end.error.as_ref() });
        let mut draft = EventDraft::new(Some(session), EventKind::TurnEnded, Some(num.0));
        draft.permission = hand.append_permission();
        let at = self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        Ok(TurnEndOutcome::Now(at.seq.unwrap_or_default()))
    }

    /// A compaction is over with the turn that wrote it.
    fn clear_compacting(&self, num: SessionNum, hand: TurnEnder) -> Result<()> {
        let mut session = load_session(self.tx.conn, self.tx.blobs, num)?;
        if session.time.compacting.take().is_none() {
            return Ok(());
        }
        let mut draft = EventDraft::new(Some(num), EventKind::SessionUpdated, Some(num.0));
        draft.permission = hand.append_permission();
        self.tx.append(&draft.payload(PreparedPayload::new(&session)?))?;
        Ok(())
    }

    fn close_parts(&self, session: SessionNum, end: &EndTurn, hand: TurnEnder) -> Result<()> {
        let mut statement = self.tx.conn.prepare_cached(
            "SELECT part.num, part.message, part.session, part.image, text_len, message.id
             FROM part JOIN message ON message.num = part.message
             WHERE part.session = ?1 AND open = 1 ORDER BY part.num",
        )?;
        let open: Vec<(PartLocation, String)> = statement
            .query_map([session], |row| Ok((PartLocation::from_row(row)?, row.get(5)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (found, message) in open {
            let message: MessageId =
                message.parse().map_err(|e| StoreError::Internal(format!("{e}")))?;
            let mut part = load_part(self.tx.conn, self.tx.blobs, (&end.session, &message), found)?;
            self.close_part(&mut part, end.outcome);
            self.tx.messages().put_part_with_permission(&part, hand.append_permission())?;
        }
        Ok(())
    }

    fn close_part(&self, part: &mut Part, outcome: TurnOutcome) {
        let now = Number::from(self.tx.now().0);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these are ever open")]
        match &mut part.body {
            PartBody::Tool(call) => {
                let reason = match outcome {
                    TurnOutcome::Aborted => "Tool execution aborted",
                    TurnOutcome::Interrupted => "Tool execution was interrupted",
                    TurnOutcome::Completed | TurnOutcome::Failed => "Tool execution did not finish",
                };
                if let Some(closed) = tool_state::interrupt_call(&call.state, reason, self.tx.now())
                {
                    call.state = closed;
                }
            }
            PartBody::Text(text) => {
                if let Some(time) = &mut text.time {
                    time.end = Some(now);
                }
            }
            PartBody::Reasoning(text) => text.time.end = Some(now),
            _ => {}
        }
    }

    /// No message of an ended turn stays half-written.
    fn close_messages(&self, turn: TurnNum, end: &EndTurn, hand: TurnEnder) -> Result<()> {
        let mut statement = self.tx.conn.prepare_cached(
            "SELECT image FROM message WHERE turn = ?1 AND role = 'assistant' AND session =
               (SELECT session FROM turn WHERE num = ?1) ORDER BY num",
        )?;
        let images: Vec<i64> =
            statement.query_map([turn], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let last = images.last().copied();
        for image in images {
            let mut message = load_message(self.tx.conn, self.tx.blobs, &end.session, image)?;
            if last == Some(image) && hand != TurnEnder::Fork {
                finish_open_step(self.tx, &message, end, hand.append_permission())?;
            }
            let MessageBody::Assistant(assistant) = &mut message.body else { continue };
            if assistant.time.completed.is_some() {
                continue;
            }
            assistant.time.completed = Some(Number::from(self.tx.now().0));
            if assistant.error.is_none() && end.outcome != TurnOutcome::Completed {
                assistant.error = Some(failure_or_default(end.outcome, end.error.as_ref()));
            }
            self.tx.messages().put_with_permission(&message, hand.append_permission(), None)?;
        }
        Ok(())
    }
}

/// Why a turn that did not end well ended: what was said, or what its end means.
pub(crate) fn failure_or_default(
    outcome: TurnOutcome,
    error: Option<&MessageFailure>,
) -> MessageFailure {
    error.cloned().unwrap_or_else(|| match outcome {
        TurnOutcome::Interrupted => MessageFailure::new(
            MessageFailureKind::MessageAbortedError,
            "The process running the turn ended",
        ),
        TurnOutcome::Aborted => {
            MessageFailure::new(MessageFailureKind::MessageAbortedError, "Aborted")
        }
        TurnOutcome::Completed | TurnOutcome::Failed => {
            MessageFailure::new(MessageFailureKind::UnknownError, "The turn failed")
        }
    })
}
