//! Turns of an import: they ended elsewhere, so no lease is needed and no process is behind them.

use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::{Message, MessageBody};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;

use super::turn::TurnMutations;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{find_message, find_open_turn};
use crate::tx::{EventDraft, WriteOutcome};

/// How a turn ended that another program ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTurnEnd {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// When.
    pub ended: EpochMillis,
}

impl TurnMutations<'_> {
    /// Records that a user message of an import begins a turn, before the message is written. The turn counts as
    /// interrupted until [`TurnMutations::end_imported`] says how it ended. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn of the session is open, [`StoreError::Conflict`] if the id names
    /// another turn.
    pub fn begin_imported(
        &self,
        id: &TurnId,
        message: &Message,
        started: EpochMillis,
    ) -> Result<WriteOutcome> {
        let MessageBody::User(user) = &message.body else {
            return Err(StoreError::Invalid("a turn begins with a user message".to_owned()));
        };
        let session = self.tx.session_num(&message.session)?;
        let conflict = || StoreError::Conflict { kind: "turn", id: id.to_string() };
        if let Some((_, owner, _)) = self.find(id)? {
            return if owner == session { Ok(WriteOutcome::No) } else { Err(conflict()) };
        }
        if find_message(self.tx.conn, &message.id)?.is_some_and(|found| found.session != session) {
            return Err(conflict());
        }
        if find_open_turn(self.tx.conn, session)?.is_some() {
            return Err(StoreError::Busy(message.session.clone()));
        }
        let payload = json!({
            "id": id, "message": message.id, "imported": started,
            "by": { "agent": user.agent, "model": user.model },
        });
        let draft = EventDraft::new(Some(session), EventKind::TurnAccepted, None).unrestricted();
        self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        Ok(WriteOutcome::Created)
    }

    /// Records how a turn of an import ended, after its last part was written. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] for an unknown turn, [`StoreError::Busy`] while a turn is open.
    pub fn end_imported(&self, session: &SessionId, end: &ImportedTurnEnd) -> Result<WriteOutcome> {
        let (num, owner, _) = self.require(session, &end.turn)?;
        if find_open_turn(self.tx.conn, owner)?.is_some() {
            return Err(StoreError::Busy(session.clone()));
        }
        let payload = PreparedPayload::new(
            &json!({ "id": end.turn, "outcome": end.outcome, "imported": end.ended }),
        )?;
        let image: i64 = self
            .tx
            .conn
            .prepare_cached("SELECT image FROM turn WHERE num = ?1")?
            .query_row([num], |row| row.get(0))?;
        if self.tx.is_payload_unchanged(image, &payload)? {
            return Ok(WriteOutcome::No);
        }
        let draft = EventDraft::new(Some(owner), EventKind::TurnEnded, Some(num.0)).unrestricted();
        self.tx.append(&draft.payload(payload))?;
        Ok(WriteOutcome::Updated)
    }
}
