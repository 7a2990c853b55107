//! Permission requests and questions: durable, answered once.

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::model::{Request, RequestBody, RequestId, RequestState};

use crate::error::{Result, StoreError};
use crate::payload::Prepared;
use crate::tx::{Changed, Draft, Tx};

/// Where a request is and what events tell of it.
struct FoundRequest {
    num: i64,
    session: i64,
    asked: i64,
    resolved: Option<i64>,
}

impl Tx<'_> {
    /// Asks a person. Repeating the same request changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id names another request.
    pub fn ask(&self, request: &Request) -> Result<Changed> {
        let session = self.session_num(&request.session)?;
        if !request.state.is_pending() {
            return Err(StoreError::Invalid("a new request has no answer yet".to_owned()));
        }
        let prepared = Prepared::new(request)?;
        if let Some(found) = self.find_request(&request.id)? {
            if self.is_same(found.asked, &prepared)? {
                return Ok(Changed::No);
            }
            return Err(StoreError::Conflict { kind: "request", id: request.id.to_string() });
        }
        let draft = Draft::new(Some(session), EventKind::RequestAsked, None);
        self.append(&draft.payload(prepared))?;
        Ok(Changed::Created)
    }

    /// Records the answer to a request. The first answer counts; the same again changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] for an unknown request, [`StoreError::Conflict`] if it was answered
    /// differently, [`StoreError::Invalid`] if the answer does not fit the question.
    pub fn resolve(&self, id: &RequestId, state: &RequestState) -> Result<Changed> {
        let Some(found) = self.find_request(id)? else {
            return Err(StoreError::NotFound { kind: "request", id: id.to_string() });
        };
        let request: Request =
            serde_json::from_value(crate::read::payload_at(self.conn, self.blobs, found.asked)?)?;
        if !fits(&request.body, state) {
            return Err(StoreError::Invalid(format!("this is no answer to {id}")));
        }
        let prepared = Prepared::new(&serde_json::json!({ "id": id, "state": state }))?;
        if let Some(resolved) = found.resolved {
            if self.is_same(resolved, &prepared)? {
                return Ok(Changed::No);
            }
            return Err(StoreError::Conflict { kind: "answer to", id: id.to_string() });
        }
        let draft = Draft::new(Some(found.session), EventKind::RequestResolved, Some(found.num));
        self.append(&draft.payload(prepared))?;
        Ok(Changed::Updated)
    }

    fn find_request(&self, id: &RequestId) -> Result<Option<FoundRequest>> {
        Ok(self
            .conn
            .prepare_cached("SELECT num, session, asked, resolved FROM request WHERE id = ?1")?
            .query_row([id.as_str()], |row| {
                Ok(FoundRequest {
                    num: row.get(0)?,
                    session: row.get(1)?,
                    asked: row.get(2)?,
                    resolved: row.get(3)?,
                })
            })
            .optional()?)
    }

    /// Withdraws the open requests of a session: its turn ended without an answer.
    pub(crate) fn withdraw_requests(&self, session: i64) -> Result<()> {
        let mut statement = self
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

fn fits(body: &RequestBody, state: &RequestState) -> bool {
    match (body, state) {
        (_, RequestState::Withdrawn) => true,
        (RequestBody::Permission(_), RequestState::Replied { .. }) => true,
        (RequestBody::Question(ask), RequestState::Answered { answers }) => {
            answers.len() == ask.questions.len()
        }
        (RequestBody::Question(_), RequestState::Rejected) => true,
        _ => false,
    }
}
