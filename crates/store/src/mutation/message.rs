//! Messages and parts.

use rusqlite::OptionalExtension;
use serde::Serialize;
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part, PartBody};
use turnstone_core::tool_state;

use crate::blob::BlobHash;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{
    PartLocation, find_message, find_open_turn, find_part, load_part, load_part_text,
};
use crate::table_row_ids::{MessageNum, PartNum, SessionNum, TurnNum};
use crate::tx::{AppendPermission, EventDraft, Tx, WriteOutcome};

/// A message as the log stores it.
#[derive(Serialize)]
struct MessagePayload<'a> {
    id: &'a MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnNum>,
    data: &'a MessageBody,
}

/// A part as the log stores it; streamed text is only referred to.
#[derive(Serialize)]
struct PartPayload<'a> {
    id: &'a PartId,
    message: MessageNum,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextRef>,
    data: &'a PartBody,
}

/// A part that nobody has yet.
#[derive(Clone, Debug)]
pub struct NewPart {
    /// Its id.
    pub id: PartId,
    /// Its body as JSON, as [`PartBody`] is written.
    pub body: String,
}

impl NewPart {
    /// Its first event, in the form of [`PartPayload`].
    fn draft(&self, session: SessionNum, message: MessageNum) -> Result<EventDraft> {
        let (id, body) = (&self.id, &self.body);
        let json = format!(r#"{{"id":"{id}","message":{message},"data":{body}}}"#);
        let draft = EventDraft::new(Some(session), EventKind::PartUpdated, None);
        Ok(draft.payload(PreparedPayload::from_json(json)?))
    }
}

/// Streamed text by length and hash (R24).
#[derive(Serialize)]
struct TextRef {
    len: i64,
    hash: String,
}

/// Writes messages, parts and streamed text.
#[derive(Clone, Copy)]
pub struct MessageMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl MessageMutations<'_> {
    /// Stores a message: all of it. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::WrongOwner`] if the id names a message of another session,
    /// [`StoreError::Busy`] or [`StoreError::Fenced`] if a turn is open and not the caller's.
    pub fn put(&self, message: &Message) -> Result<WriteOutcome> {
        self.put_with_permission(message, AppendPermission::ByKind, None)
    }

    pub(crate) fn put_with_permission(
        &self,
        message: &Message,
        right: AppendPermission,
        turn: Option<TurnNum>,
    ) -> Result<WriteOutcome> {
        let session = self.tx.session_num(&message.session)?;
        let found = find_message(self.tx.conn, &message.id)?;
        if let Some(found) = found {
            self.check_owner("message", message.id.as_str(), found.session, session)?;
        }
        let turn = match (found, turn) {
            (Some(found), _) => found.turn,
            (None, Some(turn)) => Some(turn),
            (None, None) => self.find_leased_turn(session, right)?,
        };
        let prepared =
            PreparedPayload::new(&MessagePayload { id: &message.id, turn, data: &message.body })?;
        if let Some(found) = found
            && self.tx.is_payload_unchanged(found.image, &prepared)?
        {
            return Ok(WriteOutcome::No);
        }
        let entity = found.map(|found| found.num.0);
        let mut draft = EventDraft::new(Some(session), EventKind::MessageUpdated, entity);
        draft.permission = right;
        self.tx.append(&draft.payload(prepared))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// True if a message of any session has this id.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn contains(&self, id: &MessageId) -> Result<bool> {
        Ok(find_message(self.tx.conn, id)?.is_some())
    }

    /// A message written under the lease belongs to the open turn.
    fn find_leased_turn(
        &self,
        session: SessionNum,
        right: AppendPermission,
    ) -> Result<Option<TurnNum>> {
        if right == AppendPermission::Unrestricted || self.tx.ctx.lease.is_none() {
            return Ok(None);
        }
        find_open_turn(self.tx.conn, session)
    }

    fn check_owner(
        &self,
        kind: &'static str,
        id: &str,
        owner: SessionNum,
        asked: SessionNum,
    ) -> Result<()> {
        if owner == asked {
            return Ok(());
        }
        let owner = format!("session {}", self.tx.session_id(owner)?);
        Err(StoreError::WrongOwner { kind, id: id.to_owned(), owner })
    }

    /// Removes a message with its parts; they stay in the log.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] if the session has no such message.
    pub fn remove(&self, session: &SessionId, message: &MessageId) -> Result<()> {
        let (num, owner) = self.num_and_session(session, message)?;
        let payload = PreparedPayload::new(&serde_json::json!({ "id": message }))?;
        let draft = EventDraft::new(Some(owner), EventKind::MessageRemoved, Some(num.0));
        self.tx.append(&draft.payload(payload))?;
        Ok(())
    }

    /// The numbers of a message and its session.
    pub(crate) fn num_and_session(
        &self,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<(MessageNum, SessionNum)> {
        let found = self
            .tx
            .conn
            .prepare_cached(
                "SELECT message.num, session.num FROM message
                 JOIN session ON session.num = message.session
                 WHERE message.id = ?1 AND session.id = ?2 AND hidden = 0",
            )?
            .query_row((message.as_str(), session.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some(found) = found {
            return Ok(found);
        }
        self.tx.session_num(session)?;
        Err(StoreError::NoMessage { session: session.clone(), message: message.clone() })
    }

    /// Stores a part: all of it. Repeating it changes nothing.
    ///
    /// A text that is what was streamed so far, or its beginning, is not stored again.
    ///
    /// # Errors
    ///
    /// [`StoreError::WrongOwner`] if the id names a part of another message,
    /// [`StoreError::NoMessage`] if the message is not of that session, [`StoreError::Tool`] if the
    /// tool call may not change in this way.
    pub fn put_part(&self, part: &Part) -> Result<WriteOutcome> {
        self.put_part_with_permission(part, AppendPermission::ByKind)
    }

    /// Stores a message that nobody has yet, with its parts: as [`MessageMutations::put`] and
    /// [`MessageMutations::put_part`] for each of them, with one look at the stream for all.
    ///
    /// # Errors
    ///
    /// As [`MessageMutations::put`]; an id that is taken is what the database refuses.
    pub fn add(&self, message: &Message, parts: &[NewPart]) -> Result<()> {
        let session = self.tx.session_num(&message.session)?;
        let turn = self.find_leased_turn(session, AppendPermission::ByKind)?;
        let stored = MessagePayload { id: &message.id, turn, data: &message.body };
        let first = EventDraft::new(Some(session), EventKind::MessageUpdated, None);
        let first = first.payload(PreparedPayload::new(&stored)?);
        // A new message is named by the place of its first event.
        let num = self.tx.group.cursor.get() + 1;
        let parts = parts.iter().map(|part| part.draft(session, MessageNum(num)));
        let drafts: Vec<EventDraft> =
            std::iter::once(Ok(first)).chain(parts).collect::<Result<_>>()?;
        self.tx.append_batch(session, &drafts)
    }

    /// Stores parts that nobody has yet, behind those their message has.
    ///
    /// # Errors
    ///
    /// As [`MessageMutations::put_part`]; an id that is taken is what the database refuses.
    pub fn add_parts(
        &self,
        session: &SessionId,
        message: &MessageId,
        parts: &[NewPart],
    ) -> Result<()> {
        let (message, owner) = self.num_and_session(session, message)?;
        let drafts = parts.iter().map(|part| part.draft(owner, message));
        self.tx.append_batch(owner, &drafts.collect::<Result<Vec<_>>>()?)
    }

    /// Stores a part of an import: as [`MessageMutations::put_part`], but a call that an earlier import ended,
    /// because its source still ran it, becomes what the source says now.
    ///
    /// # Errors
    ///
    /// As [`MessageMutations::put_part`].
    pub fn put_imported_part(&self, part: &Part) -> Result<WriteOutcome> {
        let is_ended_by_import = match find_part(self.tx.conn, &part.id)? {
            Some(found) => {
                let owner = (&part.session, &part.message);
                let stored = load_part(self.tx.conn, self.tx.blobs, owner, found)?;
                matches!(&stored.body, PartBody::Tool(call) if tool_state::is_interrupted(&call.state))
            }
            None => false,
        };
        self.write_part(part, AppendPermission::ByKind, !is_ended_by_import)
    }

    pub(crate) fn put_part_with_permission(
        &self,
        part: &Part,
        right: AppendPermission,
    ) -> Result<WriteOutcome> {
        self.write_part(part, right, true)
    }

    fn write_part(
        &self,
        part: &Part,
        right: AppendPermission,
        checks_transition: bool,
    ) -> Result<WriteOutcome> {
        let (message, session) = self.num_and_session(&part.session, &part.message)?;
        let found = find_part(self.tx.conn, &part.id)?;
        if let Some(found) = found {
            self.check_owner("part", part.id.as_str(), found.session, session)?;
            if found.message != message {
                let owner = "another message of the session".to_owned();
                let id = part.id.to_string();
                return Err(StoreError::WrongOwner { kind: "part", id, owner });
            }
            if checks_transition {
                self.check_tool_transition(found, part)?;
            }
        }
        let (prepared, text_len) = self.prepare_part(part, message, found)?;
        if let Some(found) = found {
            // Text streamed after the image makes an equal image a change.
            if text_len == found.text_len && self.tx.is_payload_unchanged(found.image, &prepared)? {
                return Ok(WriteOutcome::No);
            }
        }
        let mut draft =
            EventDraft::new(Some(session), EventKind::PartUpdated, found.map(|found| found.num.0));
        draft.permission = right;
        self.tx.append(&draft.payload(prepared))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// A tool call moves by the table of `core`; a part never changes its type.
    fn check_tool_transition(&self, found: PartLocation, part: &Part) -> Result<()> {
        let PartBody::Tool(to) = &part.body else { return Ok(()) };
        let owner = (&part.session, &part.message);
        let stored = load_part(self.tx.conn, self.tx.blobs, owner, found)?;
        if let PartBody::Tool(from) = &stored.body {
            tool_state::check_transition(Some(&from.state), &to.state)?;
        }
        Ok(())
    }

    fn prepare_part(
        &self,
        part: &Part,
        message: MessageNum,
        found: Option<PartLocation>,
    ) -> Result<(PreparedPayload, Option<i64>)> {
        let streamed = found.and_then(|f| f.text_len.map(|len| (f.num, len)));
        let Some(at) = streamed else {
            let whole = PartPayload { id: &part.id, message, text: None, data: &part.body };
            return Ok((PreparedPayload::new(&whole)?, None));
        };
        let mut body = part.body.clone();
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else has streamed text")]
        let text = match &mut body {
            PartBody::Text(text) => self.replace_with_text_ref(at, &mut text.text)?,
            PartBody::Reasoning(text) => self.replace_with_text_ref(at, &mut text.text)?,
            _ => None,
        };
        let len = text.as_ref().map(|text| text.len);
        Ok((PreparedPayload::new(&PartPayload { id: &part.id, message, text, data: &body })?, len))
    }

    /// Replaces text that was streamed by a reference to it.
    fn replace_with_text_ref(
        &self,
        (part, len): (PartNum, i64),
        text: &mut String,
    ) -> Result<Option<TextRef>> {
        let streamed = load_part_text(self.tx.conn, part, len)?;
        if !streamed.starts_with(text.as_str()) || text.is_empty() != streamed.is_empty() {
            return Ok(None);
        }
        let hash = BlobHash::of(text.as_bytes()).hex();
        let len = std::mem::take(text).len() as i64;
        Ok(Some(TextRef { len, hash }))
    }

    /// Removes a part; it stays in the log.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`] if the session has no such part.
    pub fn remove_part(&self, session: &SessionId, part: &PartId) -> Result<()> {
        let found = self.require_part(session, part)?;
        let payload =
            PreparedPayload::new(&serde_json::json!({ "id": part, "message": found.message }))?;
        let draft = EventDraft::new(Some(found.session), EventKind::PartRemoved, Some(found.num.0));
        self.tx.append(&draft.payload(payload))?;
        Ok(())
    }

    pub(crate) fn require_part(&self, session: &SessionId, part: &PartId) -> Result<PartLocation> {
        let owner = self.tx.session_num(session)?;
        match find_part(self.tx.conn, part)? {
            Some(found) if found.session == owner => Ok(found),
            _ => Err(StoreError::NoPart { session: session.clone(), part: part.clone() }),
        }
    }
}
