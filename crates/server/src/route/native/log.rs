//! The log by pages, the search, and the disk usage.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId};
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_store::{
    LogEvent, LogPage, SearchFilter, SearchHit, SearchKind, SearchQuery, SessionSize,
};

use super::seq_stamped::{SeqStamped, stamp_seq};
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_input::{QueryParams, parse_query_id};
use crate::request_scope::SessionRequest;
use crate::wire_json::StoredJson;

/// Events on a page unless the client says otherwise, and at most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Hits on a page unless the client says otherwise.
const DEFAULT_HITS: usize = 20;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/log", get(log))
        .route("/turnstone/session/{session}/log", get(stream))
        .route("/turnstone/search", get(search))
        .route("/turnstone/size", get(size))
}

fn position_param(query: &QueryParams, key: &str) -> Result<i64, ApiError> {
    let count = query.count(key)?.unwrap_or(0);
    i64::try_from(count)
        .map_err(|_| query.invalid_param(key, "a place in the log", &count.to_string()))
}

fn limit_param(query: &QueryParams) -> Result<usize, ApiError> {
    Ok(query.count("limit")?.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT))
}

/// An event of the log.
#[derive(Serialize)]
struct LoggedEvent {
    cursor: LogCursor,
    kind: &'static str,
    entity: i64,
    actor: String,
    time: EpochMillis,
    version: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(flatten)]
    position: Option<SessionPosition>,
    #[serde(flatten)]
    content: EventContent,
}

/// The place of an event in its session.
#[derive(Serialize)]
struct SessionPosition {
    session: SessionId,
    seq: Option<SessionSeq>,
}

/// What an event holds.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum EventContent {
    /// An image of its entity.
    Payload(StoredJson),
    /// A piece of streamed text.
    Delta { from: i64, text: String },
    /// Nothing any more: it was compacted, and its entity has a later image.
    Span(i64),
}

impl LoggedEvent {
    fn new(event: LogEvent) -> Self {
        let content = match (event.payload, event.delta) {
            (Some(payload), _) => EventContent::Payload(StoredJson(payload)),
            (None, Some(delta)) => EventContent::Delta { from: delta.from, text: delta.text },
            (None, None) => EventContent::Span(event.span),
        };
        let seq = event.seq;
        Self {
            cursor: event.cursor,
            kind: event.kind.name(),
            entity: event.entity,
            actor: event.actor,
            time: event.time,
            version: event.version,
            client: event.client,
            position: event.session.map(|session| SessionPosition { session, seq }),
            content,
        }
    }
}

/// A page of the log.
#[derive(Serialize)]
struct LogPageResponse<P> {
    events: Vec<LoggedEvent>,
    /// Where the next page begins.
    next: P,
    /// True if events before `next` are gone: read the state again.
    resync: bool,
}

impl<P> LogPageResponse<P> {
    fn new(page: LogPage, next: P, resync: bool) -> Self {
        Self { events: page.events.into_iter().map(LoggedEvent::new).collect(), next, resync }
    }
}

/// `GET /turnstone/log`
async fn log(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<LogPageResponse<LogCursor>>, ApiError> {
    let (after, limit) = (LogCursor(position_param(&query, "after")?), limit_param(&query)?);
    app.run_blocking(move |app| {
        let (page, last) = app
            .engine()
            .store()
            .read(&ctx, |r| Ok((r.log().after(after, limit)?, r.log().last_cursor()?)))?;
        // A position beyond the end is not of this log; a client that waits there would miss events.
        let is_lost = after > last;
        let next = if is_lost { last } else { page.next };
        let resync = page.resync || is_lost;
        Ok(Json(LogPageResponse::new(page, next, resync)))
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/log`
async fn stream(
    request: SessionRequest,
    query: QueryParams,
) -> Result<SeqStamped<LogPageResponse<SessionSeq>>, ApiError> {
    let (after, limit) = (SessionSeq(position_param(&query, "after")?), limit_param(&query)?);
    request
        .run(move |app, ctx, id| {
            let store = app.engine().store();
            let (page, end) = store.read(ctx, |r| {
                Ok((r.log().stream_after(id, after, limit)?, r.sessions().seq(id)?))
            })?;
            let next = page.events.iter().rev().find_map(|it| it.seq).unwrap_or(after.min(end));
            let resync = page.resync || after > end;
            stamp_seq(app, ctx, id, LogPageResponse::new(page, next, resync))
        })
        .await
}

/// A page of search results.
#[derive(Serialize)]
struct SearchResponse {
    hits: Vec<SearchHitResponse>,
    next: Option<String>,
    behind: u64,
    capped: bool,
}

/// A search result.
#[derive(Serialize)]
struct SearchHitResponse {
    session: SessionId,
    title: String,
    message: Option<MessageId>,
    part: Option<PartId>,
    kind: &'static str,
    snippet: String,
    rank: f64,
    time: EpochMillis,
}

impl From<SearchHit> for SearchHitResponse {
    fn from(hit: SearchHit) -> Self {
        Self {
            session: hit.session,
            title: hit.title,
            message: hit.message,
            part: hit.part,
            kind: hit.kind.name(),
            snippet: hit.snippet.text,
            rank: hit.rank,
            time: hit.time,
        }
    }
}

/// `GET /turnstone/search`
async fn search(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<SearchResponse>, ApiError> {
    let kinds = query.non_empty("kind").map(|text| {
        let read = |word| {
            SearchKind::parse(word).ok_or_else(|| query.invalid_param("kind", "a kind", word))
        };
        text.split(',').map(read).collect::<Result<Vec<_>, _>>()
    });
    let session = query.non_empty("session");
    let session = session.map(|text| parse_query_id::<SessionId>(&query, "session", "ses", text));
    let project = query.non_empty("project").map(|text| ProjectId::try_from(text.to_owned()));
    let project =
        project.transpose().map_err(|error| ApiError::invalid_query(error.to_string()))?;
    let wanted = SearchQuery {
        text: query.require("q")?.to_owned(),
        filter: SearchFilter {
            project,
            session: session.transpose()?,
            kinds: kinds.transpose()?.unwrap_or_default(),
            archived: query.flag("archived")?,
            roots: query.flag("roots")?,
            actor: query.non_empty("actor").map(str::to_owned),
            ..SearchFilter::default()
        },
        cursor: query.non_empty("cursor").map(str::to_owned),
        limit: query.count("limit")?.unwrap_or(DEFAULT_HITS).clamp(1, 200),
    };
    app.run_blocking(move |app| {
        let page = app.engine().store().session_search().query(&ctx, &wanted)?;
        let hits = page.hits.into_iter().map(SearchHitResponse::from).collect();
        let (next, behind, capped) = (page.next, page.behind, page.capped);
        Ok(Json(SearchResponse { hits, next, behind, capped }))
    })
    .await
}

/// The bytes of the data directory, by what they hold.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SizeResponse {
    database: u64,
    wal: u64,
    free: u64,
    log: u64,
    text: u64,
    blobs: u64,
    blob_files: u64,
    projections: u64,
    search: u64,
    other: u64,
    backups: u64,
    sessions: Vec<SessionBytes>,
}

/// The bytes of a session.
#[derive(Serialize)]
struct SessionBytes {
    session: SessionId,
    bytes: u64,
}

/// `GET /turnstone/size`
async fn size(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<SizeResponse>, ApiError> {
    let top = query.count("top")?.unwrap_or(10).min(MAX_LIMIT);
    app.run_blocking(move |app| {
        let found = app.engine().store().maintenance().measure_sizes(&ctx, top)?;
        let of_session = |it: SessionSize| SessionBytes { session: it.session, bytes: it.bytes };
        Ok(Json(SizeResponse {
            database: found.database,
            wal: found.wal,
            free: found.free,
            log: found.log,
            text: found.text,
            blobs: found.blobs,
            blob_files: found.blob_files,
            projections: found.projections,
            search: found.search,
            other: found.other,
            backups: found.backups,
            sessions: found.sessions.into_iter().map(of_session).collect(),
        }))
    })
    .await
}
