//! Sessions and messages in OpenCode's shape as text, for callers that only pass them on.
//!
//! A long session is read again and again. What is stored of it is nearly what clients are shown, so
//! it is not taken apart and put together again for each of them.

use std::borrow::Cow;

use rusqlite::Row;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::Part;
use turnstone_core::wire;

use super::list::{
    SELECT_MESSAGES, SELECT_PARTS, SessionFilter, SessionRow, inline_json, limit_plus_one,
    message_cursor, parse_message_cursor, usage_from_row,
};
use super::load::{message_from_payload, part_from_payload};
use super::reader::{ReadTx, parse_id};
use crate::error::Result;
use crate::table_row_ids::{MessageNum, SessionNum};

/// A page of messages as a JSON list of `{info, parts}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePageJson {
    /// The list.
    pub json: String,
    /// The cursor of the page before; absent if this one begins with the first message.
    pub before: Option<String>,
}

/// How parts are shown.
#[derive(Clone, Copy)]
pub struct PartRenderer<'a> {
    /// True for a body, in JSON, that is shown as it is stored.
    pub is_verbatim: &'a dyn Fn(&str) -> bool,
    /// The shape of any other part.
    pub render: &'a dyn Fn(&Part) -> Value,
}

/// A session in a list.
#[derive(Clone, Debug)]
pub enum ListedSession {
    /// In the shape clients are shown, in JSON.
    Json(String),
    /// One whose JSON has to be built from the model.
    Row {
        /// The session.
        row: Box<SessionRow>,
        /// True if it is reverted: then `revert` has to be found out.
        is_reverted: bool,
    },
}

/// What a stored session must not hold to be shown from its text: what is derived, and what hides it while it is made.
/// Inside of a text the quotes are escaped, so that these are names of fields.
const DERIVED_FIELDS: [&str; 2] = ["\"revert\"", "\"turnstone."];

/// What every stored message and part has.
#[derive(Deserialize)]
pub(super) struct RawEntity<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) data: &'a RawValue,
}

/// What is stored in the columns `payload, refs` from `at` on, if it is all there as it is.
pub(super) fn inline_entity<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<RawEntity<'a>>> {
    Ok(inline_json(row, at)?.map(serde_json::from_str).transpose()?)
}

/// Reads pages as OpenCode's JSON text, without building the model.
#[derive(Clone, Copy)]
pub struct WireJsonQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl WireJsonQueries<'_> {
    /// The newest of the sessions that match, as clients are shown them.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list_sessions(
        &self,
        filter: &SessionFilter,
        limit: usize,
    ) -> Result<Vec<ListedSession>> {
        let (sessions, _) = self.read.sessions().list_with(filter, None, limit, |row| {
            let is_back: bool = row.get(11)?;
            let is_plain = |json: &&str| !DERIVED_FIELDS.iter().any(|word| json.contains(word));
            match inline_json(row, 3)?.filter(is_plain).filter(|_| !is_back) {
                Some(json) => {
                    let mut shown = String::with_capacity(json.len() + 128);
                    wire::write_session(&mut shown, json, usage_from_row::<5>(row)?)?;
                    Ok(ListedSession::Json(shown))
                }
                None => {
                    let row = Box::new(self.read.sessions().session_row(row)?);
                    Ok(ListedSession::Row { row, is_reverted: is_back })
                }
            }
        })?;
        Ok(sessions)
    }

    /// The page of [`MessageQueries::list`](crate::MessageQueries::list) in the shape clients are shown.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`], or [`crate::StoreError::Invalid`] if the cursor is not one of
    /// ours.
    pub fn list_messages(
        &self,
        session: &SessionId,
        before: Option<&str>,
        limit: usize,
        view: PartRenderer<'_>,
    ) -> Result<MessagePageJson> {
        let owner = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(SELECT_MESSAGES)?;
        let mut rows =
            statement.query((owner, parse_message_cursor(before)?, limit_plus_one(limit)))?;
        let (mut heads, mut more) = (Vec::new(), false);
        while let Some(row) = rows.next()? {
            if heads.len() == limit {
                more = true;
                break;
            }
            heads.push(self.message(session, row)?);
        }
        heads.reverse();
        let oldest = heads.first().filter(|_| more).map(|(num, ..)| message_cursor(*num));
        Ok(MessagePageJson { json: self.messages((owner, session), &heads, view)?, before: oldest })
    }

    /// The number, the id and the shape of a message.
    fn message(
        &self,
        session: &SessionId,
        row: &Row<'_>,
    ) -> Result<(MessageNum, MessageId, String)> {
        let num = row.get(0)?;
        let mut json = String::new();
        let Some(stored) = inline_entity(row, 2)? else {
            let message =
                message_from_payload(session, super::list::row_payload(&self.read, row, 1)?)?;
            let shown = wire::message_info(&message).to_string();
            return Ok((num, message.id, shown));
        };
        let id: MessageId = parse_id(stored.id.into_owned())?;
        wire::write_message(&mut json, stored.data.get(), &id, session)?;
        Ok((num, id, json))
    }

    /// Puts the parts to their messages: one query, whatever their number.
    fn messages(
        &self,
        (owner, session): (SessionNum, &SessionId),
        heads: &[(MessageNum, MessageId, String)],
        view: PartRenderer<'_>,
    ) -> Result<String> {
        let mut json = String::from("[");
        let (Some(first), Some(last)) = (heads.first(), heads.last()) else {
            return Ok("[]".to_owned());
        };
        let mut statement = self.read.conn.prepare_cached(SELECT_PARTS)?;
        let mut rows = statement.query((owner, first.0, last.0))?;
        let mut row = rows.next()?;
        for (num, id, head) in heads {
            json.push_str(if json.len() == 1 { "{\"info\":" } else { ",{\"info\":" });
            json.push_str(head);
            json.push_str(",\"parts\":[");
            let begin = json.len();
            while let Some(part) = row {
                if part.get::<_, MessageNum>(1)? > *num {
                    break;
                }
                if part.get::<_, MessageNum>(1)? == *num {
                    if json.len() > begin {
                        json.push(',');
                    }
                    self.append_part(&mut json, (session, id), part, view)?;
                }
                row = rows.next()?;
            }
            json.push_str("]}");
        }
        json.push(']');
        Ok(json)
    }

    fn append_part(
        &self,
        json: &mut String,
        owner: (&SessionId, &MessageId),
        row: &Row<'_>,
        view: PartRenderer<'_>,
    ) -> Result<()> {
        let text_len: Option<i64> = row.get(2)?;
        let whole = inline_entity(row, 4)?.filter(|stored| (view.is_verbatim)(stored.data.get()));
        if let (None, Some(stored)) = (text_len, whole) {
            let id: PartId = parse_id(stored.id.into_owned())?;
            wire::write_part(json, stored.data.get(), &id, owner)?;
            return Ok(());
        }
        let part = part_from_payload(
            self.read.conn,
            owner,
            row.get(0)?,
            super::list::row_payload(&self.read, row, 3)?,
            text_len,
        )?;
        json.push_str(&(view.render)(&part).to_string());
        Ok(())
    }
}
