//! Turns: begun, moved and ended here, each in one transaction.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use serde_json::{Number, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{Failure, FailureKind, Message, MessageBody, Part, PartBody, Status};
use turnstone_core::time::Seq;
use turnstone_core::tool;
use turnstone_core::turn::{Outcome, TurnEvent, TurnState};

use crate::error::{Result, StoreError};
use crate::payload::Prepared;
use crate::read::{FoundPart, is_abort_asked, load_message, load_part, open_turn, parse_stored};
use crate::tx::{Draft, Right, Tx};

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
    pub outcome: Outcome,
    /// Why, when it did not end well.
    pub error: Option<Failure>,
}

/// Whether ending a turn changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It ended by this call, at this place in the stream.
    Now(Seq),
    /// It had ended in the same way before.
    Already,
}

/// Whose hand ends a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// The holder of the lease.
    Owner,
    /// Recovery, after the owner died.
    Recovery,
}

impl Hand {
    const fn right(self) -> Right {
        match self {
            Self::Owner => Right::ByKind,
            Self::Recovery => Right::Anybody,
        }
    }
}

impl Tx<'_> {
    /// Begins a turn: turn, user message and parts, all or nothing. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while another turn of the session is open, or an operation (R45).
    pub fn begin_turn(&self, new: &NewTurn) -> Result<Seq> {
        let session = self.session_num(&new.message.session)?;
        let agent = match &new.message.body {
            MessageBody::User(user) => json!({ "agent": user.agent, "model": user.model }),
            MessageBody::Assistant(_) => {
                return Err(StoreError::Invalid("a turn begins with a user message".to_owned()));
            }
        };
        if let Some((num, owner, _)) = self.find_turn(&new.id)? {
            return self.repeat_begin(num, owner, session, new);
        }
        if open_turn(self.conn, session)?.is_some() || self.in_operation(session)? {
            return Err(StoreError::Busy(new.message.session.clone()));
        }
        let payload = json!({ "id": new.id, "message": new.message.id, "by": agent });
        let draft = Draft::new(Some(session), EventKind::TurnAccepted, None).by_anybody();
        let at = self.append(&draft.payload(Prepared::new(&payload)?))?;
        self.put_message_as(&new.message, Right::Anybody, Some(at.cursor.0))?;
        for part in &new.parts {
            if part.message != new.message.id {
                return Err(StoreError::Invalid("a part of another message".to_owned()));
            }
            self.put_part_as(part, Right::Anybody)?;
        }
        Ok(at.seq.unwrap_or_default())
    }

    fn repeat_begin(&self, num: i64, owner: i64, session: i64, new: &NewTurn) -> Result<Seq> {
        let (message, seq): (String, i64) = self
            .conn
            .prepare_cached(
                "SELECT turn.message, event.seq FROM turn JOIN event ON event.cursor = turn.num
                 WHERE turn.num = ?1",
            )?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if owner == session && message == new.message.id.as_str() {
            return Ok(Seq(seq));
        }
        Err(StoreError::Conflict { kind: "turn", id: new.id.to_string() })
    }

    /// `(num, session, state)` of a turn.
    fn find_turn(&self, id: &TurnId) -> Result<Option<(i64, i64, TurnState)>> {
        let row: Option<(i64, i64, String)> = self
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
    pub(crate) fn turn_state_of(&self, id: &TurnId) -> Result<Option<TurnState>> {
        Ok(self.find_turn(id)?.map(|found| found.2))
    }

    fn owned_turn(&self, session: &SessionId, turn: &TurnId) -> Result<(i64, i64, TurnState)> {
        let owner = self.session_num(session)?;
        match self.find_turn(turn)? {
            Some(found) if found.1 == owner => Ok(found),
            _ => Err(StoreError::NotFound { kind: "turn", id: turn.to_string() }),
        }
    }

    /// Moves an open turn: started, asked, answered. A repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if the table does not allow it.
    pub fn move_turn(
        &self,
        session: &SessionId,
        turn: &TurnId,
        event: &TurnEvent,
    ) -> Result<TurnState> {
        let (num, owner, before) = self.owned_turn(session, turn)?;
        let kind = match event {
            TurnEvent::Started => EventKind::TurnStarted,
            TurnEvent::Asked => EventKind::TurnAsked,
            TurnEvent::Answered => EventKind::TurnAnswered,
            TurnEvent::Ended { .. } => {
                return Err(StoreError::Invalid("a turn is ended with `end_turn`".to_owned()));
            }
        };
        let after = before.after(event)?;
        if after != before {
            let payload = Prepared::new(&json!({ "id": turn }))?;
            self.append(&Draft::new(Some(owner), kind, Some(num)).payload(payload))?;
        }
        Ok(after)
    }

    /// Shows that the open turn waits for its next attempt.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if the turn has ended.
    pub fn set_retry(&self, session: &SessionId, turn: &TurnId, status: &Status) -> Result<()> {
        let (num, owner, state) = self.owned_turn(session, turn)?;
        state.after(&TurnEvent::Started)?;
        let payload = Prepared::new(&json!({ "id": turn, "status": status }))?;
        self.append(
            &Draft::new(Some(owner), EventKind::StatusRetrying, Some(num)).payload(payload),
        )?;
        Ok(())
    }

    /// Asks whoever runs the open turn of a session to abort it; needs no lease (R27, R45).
    ///
    /// Returns the turn, or nothing if none is open. Asking again changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn ask_abort(&self, session: &SessionId) -> Result<Option<TurnId>> {
        let num = self.session_num(session)?;
        let Some(turn) = open_turn(self.conn, num)? else {
            return Ok(None);
        };
        let id: String = self
            .conn
            .prepare_cached("SELECT id FROM turn WHERE num = ?1")?
            .query_row([turn], |row| row.get(0))?;
        let id: TurnId = parse_stored(id)?;
        if !is_abort_asked(self.conn, num, turn)? {
            let draft = Draft::new(Some(num), EventKind::TurnAbortAsked, Some(turn)).by_anybody();
            self.append(&draft.payload(Prepared::new(&json!({ "id": id }))?))?;
        }
        Ok(Some(id))
    }

    /// Ends a turn: closes its open tools and texts, completes its messages, withdraws its
    /// requests and appends the event, all or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if it has ended differently.
    pub fn end_turn(&self, end: &EndTurn) -> Result<Ended> {
        self.end_turn_by(end, Hand::Owner)
    }

    pub(crate) fn end_turn_by(&self, end: &EndTurn, hand: Hand) -> Result<Ended> {
        let (num, session, before) = self.owned_turn(&end.session, &end.turn)?;
        let event = TurnEvent::Ended { outcome: end.outcome };
        let after = before.after(&event)?;
        if after == before {
            return Ok(Ended::Already);
        }
        self.close_parts(session, end, hand)?;
        self.close_messages(num, end, hand)?;
        self.withdraw_requests(session)?;
        let payload =
            json!({ "id": end.turn, "outcome": end.outcome, "error": end.error.as_ref() });
        let mut draft = Draft::new(Some(session), EventKind::TurnEnded, Some(num));
        draft.right = hand.right();
        let at = self.append(&draft.payload(Prepared::new(&payload)?))?;
        Ok(Ended::Now(at.seq.unwrap_or_default()))
    }

    fn close_parts(&self, session: i64, end: &EndTurn, hand: Hand) -> Result<()> {
        let mut statement = self.conn.prepare_cached(
            "SELECT part.num, part.message, part.session, part.image, text_len, message.id
             FROM part JOIN message ON message.num = part.message
             WHERE part.session = ?1 AND open = 1 ORDER BY part.num",
        )?;
        let open: Vec<(FoundPart, String)> = statement
            .query_map([session], |row| Ok((FoundPart::from_row(row)?, row.get(5)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (found, message) in open {
            let message: MessageId =
                message.parse().map_err(|e| StoreError::Internal(format!("{e}")))?;
            let mut part = load_part(self.conn, self.blobs, (&end.session, &message), found)?;
            self.close_part(&mut part, end.outcome);
            self.put_part_as(&part, hand.right())?;
        }
        Ok(())
    }

    fn close_part(&self, part: &mut Part, outcome: Outcome) {
        let now = Number::from(self.now().0);
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these are ever open")]
        match &mut part.body {
            PartBody::Tool(call) => {
                let reason = match outcome {
                    Outcome::Aborted => "Tool execution aborted",
                    Outcome::Interrupted => "Tool execution was interrupted",
                    Outcome::Completed | Outcome::Failed => "Tool execution did not finish",
                };
                if let Some(closed) = tool::close(&call.state, reason, self.now()) {
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
    fn close_messages(&self, turn: i64, end: &EndTurn, hand: Hand) -> Result<()> {
        let mut statement = self.conn.prepare_cached(
            "SELECT image FROM message WHERE turn = ?1 AND role = 'assistant' AND session =
               (SELECT session FROM turn WHERE num = ?1) ORDER BY num",
        )?;
        let images: Vec<i64> =
            statement.query_map([turn], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for image in images {
            let mut message = load_message(self.conn, self.blobs, &end.session, image)?;
            let MessageBody::Assistant(assistant) = &mut message.body else { continue };
            if assistant.time.completed.is_some() {
                continue;
            }
            assistant.time.completed = Some(Number::from(self.now().0));
            if assistant.error.is_none() && end.outcome != Outcome::Completed {
                assistant.error = Some(failure(end.outcome, end.error.as_ref()));
            }
            self.put_message_as(&message, hand.right(), None)?;
        }
        Ok(())
    }
}

/// Why a turn that did not end well ended: what was said, or what its end means.
pub(crate) fn failure(outcome: Outcome, error: Option<&Failure>) -> Failure {
    error.cloned().unwrap_or_else(|| match outcome {
        Outcome::Interrupted => {
            Failure::new(FailureKind::MessageAbortedError, "The process running the turn ended")
        }
        Outcome::Aborted => Failure::new(FailureKind::MessageAbortedError, "Aborted"),
        Outcome::Completed | Outcome::Failed => {
            Failure::new(FailureKind::UnknownError, "The turn failed")
        }
    })
}
