//! The inbox: prompts that arrive while a turn runs (R29).

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part};
use turnstone_core::time::SessionSeq;

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::find_message;
use crate::table_row_ids::SessionNum;
use crate::tx::{AppendPermission, EventDraft, Tx, WriteOutcome};

/// When a prompt in the inbox is taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptDelivery {
    /// By the running turn's next model call.
    Steer,
    /// By a turn of its own, after the running one.
    Queue,
}

impl PromptDelivery {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Queue => "queue",
        }
    }
}

/// The receipt of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptReceipt {
    /// The prompt's message.
    pub message: MessageId,
    /// How it will be taken up.
    pub delivery: PromptDelivery,
    /// Where in the stream it was admitted.
    pub admitted: SessionSeq,
    /// Where in the stream it was taken up, if it was.
    pub promoted: Option<SessionSeq>,
}

/// Admits prompts to the inbox and promotes them.
#[derive(Clone, Copy)]
pub struct PromptMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl PromptMutations<'_> {
    /// Puts a prompt into the inbox: message, parts and receipt at once; needs no lease.
    ///
    /// Repeating it returns the first receipt.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id was used for another prompt.
    pub fn admit(
        &self,
        message: &Message,
        parts: &[Part],
        delivery: PromptDelivery,
    ) -> Result<PromptReceipt> {
        if !matches!(message.body, MessageBody::User(_)) {
            return Err(StoreError::Invalid("a prompt is a user message".to_owned()));
        }
        let session = self.tx.session_num(&message.session)?;
        let known = find_message(self.tx.conn, &message.id)?.is_some();
        let receipt = self.find_receipt(session, &message.id)?;
        let differs = || StoreError::Conflict { kind: "prompt", id: message.id.to_string() };
        if known && receipt.as_ref().is_none_or(|r| r.delivery != delivery) {
            return Err(differs());
        }
        let mut changed = self.tx.messages().put_with_permission(
            message,
            AppendPermission::Unrestricted,
            None,
        )? != WriteOutcome::No;
        for part in parts {
            if part.message != message.id || part.session != message.session {
                return Err(StoreError::Invalid("a part of another message".to_owned()));
            }
            changed |= self
                .tx
                .messages()
                .put_part_with_permission(part, AppendPermission::Unrestricted)?
                != WriteOutcome::No;
        }
        if let Some(receipt) = receipt {
            return if changed { Err(differs()) } else { Ok(receipt) };
        }
        let payload = PreparedPayload::new(&json!({ "id": message.id, "delivery": delivery }))?;
        let draft = EventDraft::new(Some(session), EventKind::InputAdmitted, None);
        let at = self.tx.append(&draft.payload(payload))?;
        let admitted = at.seq.unwrap_or_default();
        Ok(PromptReceipt { message: message.id.clone(), delivery, admitted, promoted: None })
    }

    /// Stores a message of a person that asks for no answer; needs no lease. Repeating it
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id was used for another message.
    pub fn add_note(&self, message: &Message, parts: &[Part]) -> Result<WriteOutcome> {
        if !matches!(message.body, MessageBody::User(_)) {
            return Err(StoreError::Invalid("a note is a user message".to_owned()));
        }
        let session = self.tx.session_num(&message.session)?;
        let known = find_message(self.tx.conn, &message.id)?.is_some();
        let mut changed = self.tx.messages().put_with_permission(
            message,
            AppendPermission::Unrestricted,
            None,
        )?;
        for part in parts {
            if part.message != message.id || part.session != message.session {
                return Err(StoreError::Invalid("a part of another message".to_owned()));
            }
            if self.tx.messages().put_part_with_permission(part, AppendPermission::Unrestricted)?
                != WriteOutcome::No
                && changed == WriteOutcome::No
            {
                changed = WriteOutcome::Updated;
            }
        }
        let is_prompt = self.find_receipt(session, &message.id)?.is_some();
        if known && (changed != WriteOutcome::No || is_prompt) {
            return Err(StoreError::Conflict { kind: "message", id: message.id.to_string() });
        }
        Ok(changed)
    }

    fn find_receipt(
        &self,
        session: SessionNum,
        message: &MessageId,
    ) -> Result<Option<PromptReceipt>> {
        let row: Option<(String, i64, Option<i64>)> = self.tx
            .conn
            .prepare_cached(
                "SELECT delivery, admitted, promoted FROM input WHERE message = ?1 AND session = ?2",
            )?
            .query_row((message.as_str(), session), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        Ok(row.map(|(delivery, admitted, promoted)| PromptReceipt {
            message: message.clone(),
            delivery: if delivery == "queue" {
                PromptDelivery::Queue
            } else {
                PromptDelivery::Steer
            },
            admitted: SessionSeq(admitted),
            promoted: promoted.map(SessionSeq),
        }))
    }

    /// Takes the oldest prompt of a kind from the inbox, exactly once, if one was admitted by `upto`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn promote(
        &self,
        session: &SessionId,
        delivery: PromptDelivery,
        upto: Option<SessionSeq>,
    ) -> Result<Option<MessageId>> {
        let num = self.tx.session_num(session)?;
        let row: Option<(i64, String)> = self
            .tx
            .conn
            .prepare_cached(
                "SELECT num, message FROM input
                 WHERE session = ?1 AND promoted IS NULL AND delivery = ?2
                   AND (?3 IS NULL OR admitted <= ?3)
                 ORDER BY num LIMIT 1",
            )?
            .query_row((num, delivery.as_str(), upto.map(|s| s.0)), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((entity, message)) = row else { return Ok(None) };
        let payload = PreparedPayload::new(&json!({ "id": message }))?;
        let draft = EventDraft::new(Some(num), EventKind::InputPromoted, Some(entity));
        self.tx.append(&draft.payload(payload))?;
        message.parse().map(Some).map_err(|e| StoreError::Internal(format!("{e}")))
    }
}
