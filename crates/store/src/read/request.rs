//! Queries on requests to the user.

use crate::read::reader::ReadTx;
use rusqlite::OptionalExtension;
use turnstone_core::id::SessionId;
use turnstone_core::model::{RequestState, UserRequest};

use super::load::load_payload;
use crate::actor_name;
use crate::error::{Result, StoreError};

/// Reads requests to the user and their answers.
#[derive(Clone, Copy)]
pub struct RequestQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl RequestQueries<'_> {
    /// The requests nobody has answered yet, of one session or of all.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn pending(&self, session: Option<&SessionId>) -> Result<Vec<UserRequest>> {
        let num = session.map(|id| self.read.session_num(id)).transpose()?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT asked FROM request WHERE pending = 1 AND (?1 IS NULL OR session = ?1)
             ORDER BY num",
        )?;
        let asked: Vec<i64> =
            statement.query_map([num], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        asked
            .into_iter()
            .map(|cursor| {
                Ok(serde_json::from_value(load_payload(self.read.conn, self.read.blobs, cursor)?)?)
            })
            .collect()
    }

    /// The answer to a request, `Pending` while there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub fn state(&self, id: &str) -> Result<RequestState> {
        let row: Option<Option<i64>> = self
            .read
            .conn
            .prepare_cached("SELECT resolved FROM request WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        match row {
            None => Err(StoreError::NotFound { kind: "request", id: id.to_owned() }),
            Some(None) => Ok(RequestState::Pending),
            Some(Some(at)) => {
                let mut value = load_payload(self.read.conn, self.read.blobs, at)?;
                Ok(serde_json::from_value(value["state"].take())?)
            }
        }
    }

    /// A request as it stands, if there is one of that id.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find(&self, id: &str) -> Result<Option<UserRequest>> {
        let asked: Option<i64> = self
            .read
            .conn
            .prepare_cached("SELECT asked FROM request WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let Some(asked) = asked else {
            return Ok(None);
        };
        let mut request: UserRequest =
            serde_json::from_value(load_payload(self.read.conn, self.read.blobs, asked)?)?;
        request.state = self.state(id)?;
        Ok(Some(request))
    }

    /// The newest requests of a session, answered or not, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn list_newest(&self, session: &SessionId, limit: usize) -> Result<Vec<UserRequest>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT id FROM request WHERE session = ?1 ORDER BY num DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ids = statement
            .query_map((num, limit), |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        let mut found = Vec::new();
        for id in ids {
            found.extend(self.find(&id)?);
        }
        Ok(found)
    }

    /// The newest permission requests of a session that an actor made, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn newest_permissions_by(
        &self,
        session: &SessionId,
        actor: &str,
        limit: usize,
    ) -> Result<Vec<UserRequest>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT request.id, actor.name FROM request JOIN event ON event.cursor = request.asked
             JOIN actor ON actor.num = event.actor
             WHERE request.session = ?1 AND request.kind = 'permission' ORDER BY request.num DESC LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement
            .query_map((num, limit), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(String, String)>>>()?;
        let mut found = Vec::new();
        for (id, name) in rows {
            if actor_name::split_actor_client(name).0 == actor {
                found.extend(self.find(&id)?);
            }
        }
        Ok(found)
    }

    /// Who asked a request, if there is one of that id.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn actor(&self, id: &str) -> Result<Option<String>> {
        let name: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT actor.name FROM request JOIN event ON event.cursor = request.asked
                 JOIN actor ON actor.num = event.actor WHERE request.id = ?1",
            )?
            .query_row([id], |row| row.get(0))
            .optional()?;
        Ok(name.map(|name| actor_name::split_actor_client(name).0))
    }
}
