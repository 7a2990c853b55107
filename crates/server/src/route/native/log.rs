//! The log by pages, the search, and where the bytes are.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::time::{Cursor, Seq};
use turnstone_store::{LogEvent, LogPage, SearchFilter, SearchHit, SearchKind, SearchQuery};

use super::answer::Stamped;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Query, id_in};
use crate::route::session::session_id;

/// Events on a page unless the client says otherwise, and at most.
const PAGE: usize = 100;
const MOST: usize = 1000;

/// Hits on a page unless the client says otherwise.
const HITS: usize = 20;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/log", get(log))
        .route("/turnstone/session/{session}/log", get(stream))
        .route("/turnstone/search", get(search))
        .route("/turnstone/size", get(size))
}

fn number(query: &Query, key: &str) -> Result<i64, ApiError> {
    let count = query.count(key)?.unwrap_or(0);
    i64::try_from(count).map_err(|_| query.refuse(key, "a place in the log", &count.to_string()))
}

fn limit(query: &Query) -> Result<usize, ApiError> {
    Ok(query.count("limit")?.unwrap_or(PAGE).clamp(1, MOST))
}

fn event(event: &LogEvent) -> Value {
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

fn events(page: &LogPage) -> Vec<Value> {
    page.events.iter().map(event).collect()
}

/// `GET /turnstone/log`
async fn log(
    State(app): State<App>,
    Caller(ctx): Caller,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let (after, limit) = (Cursor(number(&query, "after")?), limit(&query)?);
    app.blocking(move |app| {
        let (page, last) = app
            .engine()
            .store()
            .read(&ctx, |r| Ok((r.log_after(after, limit)?, r.last_cursor()?)))?;
        // A place behind the end is none of this log: who waits there would miss what comes.
        let is_lost = after > last;
        let next = if is_lost { last } else { page.next };
        let resync = page.resync || is_lost;
        Ok(Json(json!({ "events": events(&page), "next": next, "resync": resync })))
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/log`
async fn stream(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    query: Query,
) -> Result<Stamped<Value>, ApiError> {
    let id = session_id(&session)?;
    let (after, limit) = (Seq(number(&query, "after")?), limit(&query)?);
    app.blocking(move |app| {
        let (page, end) = app
            .engine()
            .store()
            .read(&ctx, |r| Ok((r.stream_after(&id, after, limit)?, r.session_seq(&id)?)))?;
        let next = page.events.iter().rev().find_map(|it| it.seq).unwrap_or(after.min(end));
        let resync = page.resync || after > end;
        let body = json!({ "events": events(&page), "next": next, "resync": resync });
        app.stamped(&ctx, &id, body)
    })
    .await
}

fn hit(hit: &SearchHit) -> Value {
    json!({
        "session": hit.session, "title": hit.title, "message": hit.message, "part": hit.part,
        "kind": hit.kind.name(), "snippet": hit.snippet.text, "rank": hit.rank, "time": hit.time,
    })
}

/// `GET /turnstone/search`
async fn search(
    State(app): State<App>,
    Caller(ctx): Caller,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let kinds = query.filled("kind").map(|text| {
        let read =
            |word| SearchKind::parse(word).ok_or_else(|| query.refuse("kind", "a kind", word));
        text.split(',').map(read).collect::<Result<Vec<_>, _>>()
    });
    let session = query.filled("session");
    let session = session.map(|text| id_in::<SessionId>(&query, "session", "ses", text));
    let project = query.filled("project").map(|text| ProjectId::try_from(text.to_owned()));
    let project = project.transpose().map_err(|error| ApiError::query(error.to_string()))?;
    let wanted = SearchQuery {
        text: query.need("q")?.to_owned(),
        filter: SearchFilter {
            project,
            session: session.transpose()?,
            kinds: kinds.transpose()?.unwrap_or_default(),
            archived: query.flag("archived")?,
            roots: query.flag("roots")?,
            ..SearchFilter::default()
        },
        cursor: query.filled("cursor").map(str::to_owned),
        limit: query.count("limit")?.unwrap_or(HITS).clamp(1, 200),
    };
    app.blocking(move |app| {
        let page = app.engine().store().search(&ctx, &wanted)?;
        let hits: Vec<Value> = page.hits.iter().map(hit).collect();
        let body = json!({ "hits": hits, "next": page.next, "behind": page.behind,
            "capped": page.capped });
        Ok(Json(body))
    })
    .await
}

/// `GET /turnstone/size`
async fn size(
    State(app): State<App>,
    Caller(ctx): Caller,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let top = query.count("top")?.unwrap_or(10).min(MOST);
    app.blocking(move |app| {
        let found = app.engine().store().sizes(&ctx, top)?;
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
