//! A hit: a match read back through the model.

use rusqlite::OptionalExtension;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::time::{EpochMillis, LogCursor};

use super::index_plan::{load_changed_paths, load_part_body, skip_unreadable};
use super::query_parser::Phrase;
use super::searchable_text::{self, SearchKind};
use super::snippet::{self, Snippet};
use crate::error::{Result, StoreError};
use crate::read::{ReadTx, parse_stored};
use crate::table_row_ids::PartNum;

/// One part, title or changed path that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// The message, for a changed path the prompt of its turn; absent for a title.
    pub message: Option<MessageId>,
    /// The part; absent for a title and for a path that a command changed.
    pub part: Option<PartId>,
    /// What kind of text matches.
    pub kind: SearchKind,
    /// The text around the first match.
    pub snippet: Snippet,
    /// How well it matches: the higher the better. Comparable within one page only.
    pub rank: f64,
    /// When the message was made, or the session last changed.
    pub time: EpochMillis,
}

struct HitRow {
    kind: i64,
    session: String,
    title: String,
    message: Option<String>,
    part: Option<String>,
    image: Option<i64>,
    text_len: Option<i64>,
    time: f64,
    /// Where in the log a change set was closed.
    closed: Option<i64>,
}

const HIT: &str = "
SELECT doc.kind, session.id, session.title, message.id, part.id, part.image, part.text_len,
       coalesce(message.created, session.updated), change.closed
FROM search_doc AS doc JOIN session ON session.num = doc.session
LEFT JOIN change ON change.num = doc.num
LEFT JOIN turn ON turn.id = change.turn AND turn.session = change.session
LEFT JOIN message ON message.num =
  coalesce(doc.message, (SELECT num FROM message AS prompt WHERE prompt.id = turn.message))
LEFT JOIN part ON part.num = doc.num
WHERE doc.num = ?1";

/// Reads a match.
pub(super) fn load_hit(
    reader: &ReadTx<'_>,
    num: i64,
    rank: f64,
    phrases: &[Phrase],
) -> Result<Option<SearchHit>> {
    let row = reader
        .conn
        .prepare_cached(HIT)?
        .query_row([num], |row| {
            Ok(HitRow {
                kind: row.get(0)?,
                session: row.get(1)?,
                title: row.get(2)?,
                message: row.get(3)?,
                part: row.get(4)?,
                image: row.get(5)?,
                text_len: row.get(6)?,
                time: row.get(7)?,
                closed: row.get(8)?,
            })
        })
        .optional()?;
    let Some(row) = row else { return Ok(None) };
    let text = match (row.image, row.closed) {
        (None, Some(closed)) => {
            skip_unreadable(num, load_changed_paths(reader.conn, reader.blobs, LogCursor(closed)))?
                .unwrap_or_default()
        }
        (Some(image), _) => {
            let body = load_part_body(
                reader.conn,
                reader.blobs,
                PartNum(num),
                LogCursor(image),
                row.text_len,
            );
            let text =
                skip_unreadable(num, body)?.as_ref().and_then(searchable_text::searchable_text);
            text.map_or_else(String::new, |(_, text)| text)
        }
        (None, None) => searchable_text::searchable_title(&row.title),
    };
    let kind = SearchKind::from_code(row.kind)
        .ok_or_else(|| StoreError::Internal(format!("search kind {}", row.kind)))?;
    Ok(Some(SearchHit {
        session: parse_stored(row.session)?,
        title: row.title,
        message: row.message.map(parse_stored).transpose()?,
        part: row.part.map(parse_stored).transpose()?,
        kind,
        snippet: snippet::cut_snippet(&text, phrases),
        rank: -rank,
        time: EpochMillis(row.time as i64),
    }))
}
