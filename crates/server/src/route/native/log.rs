//! The log by pages, the search, and where the bytes are.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_store::{LogEvent, LogPage, SearchFilter, SearchHit, SearchKind, SearchQuery};

use super::seq_stamped::SeqStamped;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_input::{QueryParams, parse_query_id};
use crate::route::session::session_id;

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

fn event_json(event: &LogEvent) -> Value {
    let mut told = json!({
        "cursor": event.cursor, "kind": event.kind.name(), "entity": event.entity,
        "actor": event.actor, "time": event.time, "version": event.version,
    });
    if let Some(client) = &event.client {
        told["client"] = json!(client);
    }
    if let Some(session) = &event.session {
        told["session"] = json!(session);
        told["seq"] = json!(event.seq);
    }
    match (&event.payload, &event.delta) {
        (Some(payload), _) => told["payload"] = payload.clone(),
        (None, Some(delta)) => told["delta"] = json!({ "from": delta.from, "text": delta.text }),
        // Compacted: the entity has a later image.
        (None, None) => told["span"] = json!(event.span),
    }
    told
}

fn events_json(page: &LogPage) -> Vec<Value> {
    page.events.iter().map(event_json).collect()
}

/// `GET /turnstone/log`
async fn log(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let (after, limit) = (LogCursor(position_param(&query, "after")?), limit_param(&query)?);
    app.run_blocking(move |app| {
        let (page, last) = app
            .engine()
            .store()
            .read(&ctx, |r| Ok((r.log().after(after, limit)?, r.log().last_cursor()?)))?;
        // A place behind the end is none of this log: who waits there would miss what comes.
        let is_lost = after > last;
        let next = if is_lost { last } else { page.next };
        let resync = page.resync || is_lost;
        Ok(Json(json!({ "events": events_json(&page), "next": next, "resync": resync })))
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/log`
async fn stream(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    query: QueryParams,
) -> Result<SeqStamped<Value>, ApiError> {
    let id = session_id(&session)?;
    let (after, limit) = (SessionSeq(position_param(&query, "after")?), limit_param(&query)?);
    app.run_blocking(move |app| {
        let (page, end) = app.engine().store().read(&ctx, |r| {
            Ok((r.log().stream_after(&id, after, limit)?, r.sessions().seq(&id)?))
        })?;
        let next = page.events.iter().rev().find_map(|it| it.seq).unwrap_or(after.min(end));
        let resync = page.resync || after > end;
        let body = json!({ "events": events_json(&page), "next": next, "resync": resync });
        app.stamp_seq(&ctx, &id, body)
    })
    .await
}

fn hit_json(hit: &SearchHit) -> Value {
    json!({
        "session": hit.session, "title": hit.title, "message": hit.message, "part": hit.part,
        "kind": hit.kind.name(), "snippet": hit.snippet.text, "rank": hit.rank, "time": hit.time,
    })
}

/// `GET /turnstone/search`
async fn search(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
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
            ..SearchFilter::default()
        },
        cursor: query.non_empty("cursor").map(str::to_owned),
        limit: query.count("limit")?.unwrap_or(DEFAULT_HITS).clamp(1, 200),
    };
    app.run_blocking(move |app| {
        let page = app.engine().store().search_index().query(&ctx, &wanted)?;
        let hits: Vec<Value> = page.hits.iter().map(hit_json).collect();
        let body = json!({ "hits": hits, "next": page.next, "behind": page.behind,
            "capped": page.capped });
        Ok(Json(body))
    })
    .await
}

/// `GET /turnstone/size`
async fn size(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let top = query.count("top")?.unwrap_or(10).min(MAX_LIMIT);
    app.run_blocking(move |app| {
        let found = app.engine().store().maintenance().measure_sizes(&ctx, top)?;
        let sessions: Vec<Value> = found
            .sessions
            .iter()
            .map(|it| json!({ "session": it.session, "bytes": it.bytes }))
            .collect();
        Ok(Json(json!({
            "database": found.database, "wal": found.wal, "free": found.free, "log": found.log,
            "text": found.text, "blobs": found.blobs, "blobFiles": found.blob_files,
            "projections": found.projections, "search": found.search, "other": found.other,
            "backups": found.backups, "sessions": sessions,
        })))
    })
    .await
}
