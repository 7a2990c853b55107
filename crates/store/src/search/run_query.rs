//! Queries: ranked by relevance, then by recency, page by page.

use rusqlite::{Connection, OptionalExtension, named_params};
use turnstone_core::call_context::Context;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::time::{EpochMillis, LogCursor};

use super::hit::{SearchHit, load_hit};
use super::index_plan::{IndexProgress, load_position};
use super::indexer::events_behind;
use super::query_parser::{Phrase, fts_expression, parse_query};
use super::searchable_text::SearchKind;
use crate::blob::BlobHash;
use crate::error::{Result, StoreError};
use crate::read::ReadTx;
use crate::search::indexer::SessionSearch;

/// So many matches are ranked, the newest of all: words that are everywhere stay quick.
const MAX_RANKED: usize = 5000;
/// Attempts while other processes rebuild the index.
const ATTEMPTS: usize = 3;
/// The longest page.
const MAX_PAGE: usize = 200;

/// Where to search; every field narrows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// In sessions of this project.
    pub project: Option<ProjectId>,
    /// In this session.
    pub session: Option<SessionId>,
    /// In these kinds of text; none means all.
    pub kinds: Vec<SearchKind>,
    /// In archived sessions too.
    pub archived: bool,
    /// Only in sessions that no other session started.
    pub roots: bool,
    /// In what this actor wrote; of titles, in sessions this actor began.
    pub actor: Option<String>,
    /// Written at or after this moment.
    pub after: Option<EpochMillis>,
    /// Written before this moment.
    pub before: Option<EpochMillis>,
}

/// What to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    /// Words, "phrases in quotes" and prefix*, all of them required; anything else separates words.
    pub text: String,
    /// Where to search.
    pub filter: SearchFilter,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
    /// Hits on the page: 1 to 200.
    pub limit: usize,
}

impl SearchQuery {
    /// The first twenty hits, everywhere but in archived sessions.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), filter: SearchFilter::default(), cursor: None, limit: 20 }
    }
}

/// A page of hits, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPage {
    /// The hits.
    pub hits: Vec<SearchHit>,
    /// Where the next page begins; absent on the last.
    pub next: Option<String>,
    /// Events logged before the query began that the index has not seen: zero unless the store
    /// cannot be written.
    pub behind: u64,
    /// There were so many matches that only the newest were ranked.
    pub capped: bool,
}

/// A match before it is read: sorted by rank, then newest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankedMatch {
    /// As FTS5 gives it: the lower the better.
    rank: f64,
    time: f64,
    num: i64,
}

impl SessionSearch<'_> {
    /// Searches everything that was committed before the call.
    ///
    /// What is not indexed yet is indexed first. A store that cannot be written is searched as far
    /// as it is indexed; [`SearchPage::behind`] tells.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the query has no words, too many, or the cursor is of another
    /// query; [`StoreError::NoSession`] if the session to search in does not exist.
    pub fn query(&self, ctx: &Context, query: &SearchQuery) -> Result<SearchPage> {
        let phrases = parse_query(&query.text)?;
        let after = query
            .cursor
            .as_deref()
            .map(|text| RankedMatch::from_cursor(text, query))
            .transpose()?;
        let upto = self.store.read(ctx, |r| r.log().last_cursor())?;
        for _ in 0..ATTEMPTS {
            let progress = self.index_pending(ctx, upto)?;
            let page = self.store.read(ctx, |reader| {
                let now = load_position(reader.conn)?;
                // Another process started to rebuild the index meanwhile.
                if now.resync || now.cursor < progress.stored {
                    return Ok(None);
                }
                let page = search_page(reader, query, &phrases, after)?;
                let reached = progress.reached.max(now.cursor);
                Ok(Some(SearchPage { behind: events_behind(reached, upto), ..page }))
            })?;
            if let Some(page) = page {
                return Ok(page);
            }
        }
        Ok(SearchPage { behind: events_behind(0, upto), ..SearchPage::default() })
    }

    /// Indexes what there is, unless the store cannot be written at the moment.
    fn index_pending(&self, ctx: &Context, upto: LogCursor) -> Result<IndexProgress> {
        if self.store.read_only_reason().is_some() {
            return Ok(IndexProgress::default());
        }
        match self.index_up_to(ctx, upto, usize::MAX) {
            Err(
                StoreError::Full { .. }
                | StoreError::Locked { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::Poisoned { .. },
            ) => Ok(IndexProgress::default()),
            progress => progress,
        }
    }
}

pub(super) fn search_page(
    reader: &ReadTx<'_>,
    query: &SearchQuery,
    phrases: &[Phrase],
    after: Option<RankedMatch>,
) -> Result<SearchPage> {
    let Some(mut places) = find_matches(reader, &query.filter, phrases)? else {
        return Ok(SearchPage::default());
    };
    let capped = places.len() > MAX_RANKED;
    places.truncate(MAX_RANKED);
    places.sort_by(RankedMatch::compare);
    if let Some(after) = after {
        places.retain(|place| place.compare(&after).is_gt());
    }
    let limit = query.limit.clamp(1, MAX_PAGE);
    let next = (places.len() > limit).then(|| places[limit - 1].to_cursor(query));
    let mut hits = Vec::with_capacity(limit.min(places.len()));
    for place in places.iter().take(limit) {
        hits.extend(load_hit(reader, place.num, place.rank, phrases)?);
    }
    Ok(SearchPage { hits, next, behind: 0, capped })
}

const MATCHES: &str = "
SELECT search.rowid, bm25(search, 1.0, 0.5, 0.0), coalesce(message.created, session.updated)
FROM search
CROSS JOIN search_doc AS doc ON doc.num = search.rowid
CROSS JOIN session ON session.num = doc.session
LEFT JOIN change ON change.num = doc.num
LEFT JOIN turn ON turn.id = change.turn AND turn.session = change.session
LEFT JOIN message ON message.num =
  coalesce(doc.message, (SELECT num FROM message AS prompt WHERE prompt.id = turn.message))
LEFT JOIN part ON part.num = doc.num
WHERE search MATCH :match AND session.hidden = 0
  AND (doc.message IS NULL OR part.num IS NOT NULL)
  -- The patch of a step names the same files.
  AND (change.num IS NULL OR message.num IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM message AS answer JOIN part AS patch
            ON patch.session = answer.session AND patch.message = answer.num
          WHERE answer.session = change.session AND answer.turn = turn.num
            AND answer.num > message.num AND patch.type = 'patch'))
  AND (:project IS NULL OR session.project = :project)
  AND (:archived = 1 OR session.archived IS NULL)
  AND (:roots = 0 OR session.parent IS NULL)
  AND (:actor IS NULL OR coalesce(message.actor, session.actor) IN
         (SELECT num FROM actor
          WHERE name = :actor OR substr(name, 1, length(:actor) + 1) = :actor || char(10)))
  AND (:after IS NULL OR coalesce(message.created, session.updated) >= :after)
  AND (:before IS NULL OR coalesce(message.created, session.updated) < :before)
ORDER BY search.rowid DESC LIMIT :limit";

/// The newest matches, one more than are ranked; nothing if the filter names what does not exist.
fn find_matches(
    reader: &ReadTx<'_>,
    filter: &SearchFilter,
    phrases: &[Phrase],
) -> Result<Option<Vec<RankedMatch>>> {
    let conn = reader.conn;
    let session = filter.session.as_ref().map(|id| reader.session_num(id)).transpose()?;
    let project = match &filter.project {
        Some(id) => find_num(conn, "SELECT num FROM project WHERE id = ?1", id.as_str())?,
        None => None,
    };
    if filter.project.is_some() && project.is_none() {
        return Ok(None);
    }
    let kinds: Vec<i64> = filter.kinds.iter().map(|kind| kind.code()).collect();
    let mut statement = conn.prepare_cached(MATCHES)?;
    let rows = statement.query_map(
        named_params! {
            ":match": fts_expression(phrases, session, &kinds),
            ":project": project,
            ":archived": filter.archived,
            ":roots": filter.roots,
            ":actor": filter.actor,
            ":after": filter.after.map(|at| at.0),
            ":before": filter.before.map(|at| at.0),
            ":limit": MAX_RANKED as i64 + 1,
        },
        |row| Ok(RankedMatch { num: row.get(0)?, rank: row.get(1)?, time: row.get(2)? }),
    )?;
    Ok(Some(rows.collect::<rusqlite::Result<_>>()?))
}

fn find_num(conn: &Connection, sql: &'static str, name: &str) -> Result<Option<i64>> {
    Ok(conn.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?)
}

impl RankedMatch {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let newer = other.time.total_cmp(&self.time).then(other.num.cmp(&self.num));
        self.rank.total_cmp(&other.rank).then(newer)
    }

    /// The place as an opaque text; it carries a check that binds it to the query.
    fn to_cursor(self, query: &SearchQuery) -> String {
        let place =
            format!("{:016x}{:016x}{:016x}", self.rank.to_bits(), self.time.to_bits(), self.num);
        let check = cursor_checksum(&place, query);
        place + &check
    }

    fn from_cursor(text: &str, query: &SearchQuery) -> Result<Self> {
        let bad = || StoreError::Invalid("this is not a cursor of this search".to_owned());
        let (place, given) = text.split_at_checked(48).ok_or_else(bad)?;
        if cursor_checksum(place, query) != given {
            return Err(bad());
        }
        let field = |at: usize| {
            let digits = place.get(at..at + 16).ok_or_else(bad)?;
            u64::from_str_radix(digits, 16).map_err(|_| bad())
        };
        let num = i64::try_from(field(32)?).map_err(|_| bad())?;
        Ok(Self { rank: f64::from_bits(field(0)?), time: f64::from_bits(field(16)?), num })
    }
}

fn cursor_checksum(place: &str, query: &SearchQuery) -> String {
    let all = format!("{place} {:?} {:?}", query.text, query.filter);
    let mut hex = BlobHash::of(all.as_bytes()).hex();
    hex.truncate(16);
    hex
}
