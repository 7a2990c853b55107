//! Permission requests and questions: durable, answered once.

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::model::{PermissionReply, RequestBody, RequestId, RequestState, UserRequest};

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// The session of a request and what its events record.
struct RequestLocation {
    num: i64,
    session: SessionNum,
    asked: i64,
    resolved: Option<i64>,
}

/// Writes requests to the user and their answers.
#[derive(Clone, Copy)]
pub struct RequestMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl RequestMutations<'_> {
    /// Asks a person. Repeating the same request changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id names another request.
    pub fn add(&self, request: &UserRequest) -> Result<WriteOutcome> {
        let session = self.tx.session_num(&request.session)?;
        if !request.state.is_pending() {
            return Err(StoreError::Invalid("a new request has no answer yet".to_owned()));
        }
        let prepared = PreparedPayload::new(request)?;
        if let Some(found) = self.find(&request.id)? {
            if self.tx.is_payload_unchanged(found.asked, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "request", id: request.id.to_string() });
        }
        let draft = EventDraft::new(Some(session), EventKind::RequestAsked, None);
        self.tx.append(&draft.payload(prepared))?;
        Ok(WriteOutcome::Created)
    }

    /// Records the answer to a request. The first answer counts; the same again changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] for an unknown request, [`StoreError::Conflict`] if it was answered
    /// differently, [`StoreError::Invalid`] if the answer does not fit the question.
    pub fn resolve(&self, id: &RequestId, state: &RequestState) -> Result<WriteOutcome> {
        let Some(found) = self.find(id)? else {
            return Err(StoreError::NotFound { kind: "request", id: id.to_string() });
        };
        let request: UserRequest = serde_json::from_value(crate::read::load_payload(
            self.tx.conn,
            self.tx.blobs,
            found.asked,
        )?)?;
        if !is_valid_answer(&request.body, state) {
            return Err(StoreError::Invalid(format!("this is no answer to {id}")));
        }
        let prepared = PreparedPayload::new(&serde_json::json!({ "id": id, "state": state }))?;
        if let Some(resolved) = found.resolved {
            if self.tx.is_payload_unchanged(resolved, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "answer to", id: id.to_string() });
        }
        let draft =
            EventDraft::new(Some(found.session), EventKind::RequestResolved, Some(found.num));
        self.tx.append(&draft.payload(prepared))?;
        Ok(WriteOutcome::Updated)
    }

    /// Uses up the permission a person granted; false if it is not granted, or was used before.
    ///
    /// Writers take turns, so of several who try, one gets it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] for an unknown request.
    pub fn use_grant(&self, id: &RequestId) -> Result<bool> {
        let Some(found) = self.find(id)? else {
            return Err(StoreError::NotFound { kind: "request", id: id.to_string() });
        };
        let Some(resolved) = found.resolved else { return Ok(false) };
        let mut value = crate::read::load_payload(self.tx.conn, self.tx.blobs, resolved)?;
        let RequestState::Replied { reply, message, used: false } =
            serde_json::from_value(value["state"].take())?
        else {
            return Ok(false);
        };
        if reply == PermissionReply::Reject {
            return Ok(false);
        }
        let state = RequestState::Replied { reply, message, used: true };
        let prepared = PreparedPayload::new(&serde_json::json!({ "id": id, "state": state }))?;
        let draft =
            EventDraft::new(Some(found.session), EventKind::RequestResolved, Some(found.num));
        self.tx.append(&draft.payload(prepared))?;
        Ok(true)
    }

    fn find(&self, id: &RequestId) -> Result<Option<RequestLocation>> {
        Ok(self
            .tx
            .conn
            .prepare_cached("SELECT num, session, asked, resolved FROM request WHERE id = ?1")?
            .query_row([id.as_str()], |row| {
                Ok(RequestLocation {
                    num: row.get(0)?,
                    session: row.get(1)?,
                    asked: row.get(2)?,
                    resolved: row.get(3)?,
                })
            })
            .optional()?)
    }

    /// Withdraws the open requests of a session: its turn ended without an answer.
    pub(crate) fn withdraw_all(&self, session: SessionNum) -> Result<()> {
        let mut statement = self
            .tx
            .conn
            .prepare_cached("SELECT id FROM request WHERE session = ?1 AND pending = 1")?;
        let ids: Vec<String> =
            statement.query_map([session], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for id in ids {
            let id: RequestId = serde_json::from_value(serde_json::Value::String(id))?;
            self.resolve(&id, &RequestState::Withdrawn)?;
        }
        Ok(())
    }
}

fn is_valid_answer(body: &RequestBody, state: &RequestState) -> bool {
    match (body, state) {
        (_, RequestState::Withdrawn) => true,
        (RequestBody::Permission(_), RequestState::Replied { used, .. }) => !used,
        (RequestBody::Question(ask), RequestState::Answered { answers }) => {
            answers.len() == ask.questions.len()
        }
        (RequestBody::Question(_), RequestState::Rejected) => true,
        _ => false,
    }
}
