//! Event streams.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Extension, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use turnstone_core::id::SessionId;
use turnstone_core::time::LogCursor;

use crate::app::AppState;
use crate::connection::StreamSocket;
use crate::error::ApiError;
use crate::event::{StreamFormat, StreamPlace, StreamSubscription, history_page};
use crate::peer::ConnectionPeer;
use crate::project_directory::{RequestedDirectory, find_project_directory};
use crate::request_context::RequestContext;
use crate::request_input::{QueryParams, format_js_number, parse_js_number};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/event", get(instance))
        .route("/global/event", all_directories(StreamFormat::Global))
        .route("/api/event", all_directories(StreamFormat::Api))
        .route("/api/session/{session}/event", get(session_events))
        .route("/api/session/{session}/history", get(session_history))
}

/// Where a client was before: the header of the standard, or `after` in the query.
///
/// Clients send the header by themselves, so one that is of another server is no mistake of theirs: it is
/// a place this log never reached. A position in a query was written by a person.
fn resume_position(
    headers: &HeaderMap,
    query: &QueryParams,
) -> Result<Option<StreamPlace>, ApiError> {
    if let Some(text) = headers.get("last-event-id").filter(|value| !value.is_empty()) {
        let place = text.to_str().ok().and_then(StreamPlace::parse);
        return Ok(Some(place.unwrap_or(StreamPlace::UNREACHABLE)));
    }
    let Some(text) = query.non_empty("after") else { return Ok(None) };
    match StreamPlace::parse(text) {
        Some(place) => Ok(Some(place)),
        None => Err(query.invalid_param("after", "the id of an event of this stream", text)),
    }
}

/// `GET /event`
async fn instance(
    State(app): State<AppState>,
    ConnectInfo(peer): ConnectInfo<ConnectionPeer>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    socket: Option<Extension<Arc<StreamSocket>>>,
    headers: HeaderMap,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let after = resume_position(&headers, &query)?;
    let place = app
        .run_blocking(move |app| Ok((find_project_directory(app, &ctx, &asked.directory)?, asked)))
        .await;
    let (place, asked) = place?;
    let directory = place.map_or(asked.directory, |place| place.directory);
    let directory = Some(directory.to_string_lossy().into_owned());
    let (peer, wire, socket) = (peer.id, StreamFormat::Instance, socket.map(|socket| socket.0));
    app.hub().open_stream(StreamSubscription { peer, wire, directory, after, socket }).await
}

/// The stream of all directories: `GET /global/event` and `GET /api/event`.
fn all_directories(format: StreamFormat) -> MethodRouter<AppState> {
    get(
        move |State(app): State<AppState>,
              ConnectInfo(peer): ConnectInfo<ConnectionPeer>,
              socket: Option<Extension<Arc<StreamSocket>>>,
              headers: HeaderMap,
              query: QueryParams| async move {
            let after = resume_position(&headers, &query)?;
            let (peer, socket) = (peer.id, socket.map(|socket| socket.0));
            let listener =
                StreamSubscription { peer, wire: format, directory: None, after, socket };
            app.hub().open_stream(listener).await
        },
    )
}

/// How many events a page of history has unless the client says otherwise, and at most.
const PAGE_LIMITS: (usize, usize) = (50, 100);

/// A refusal in the form of the second interface.
fn invalid_integer(key: &str, text: &str) -> ApiError {
    let got = format_js_number(parse_js_number(text));
    let message = format!("Expected an integer, got {got}\n  at [\"{key}\"]");
    ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", &message)
        .with_field("kind", "Query")
}

/// A whole number of the query.
fn integer_param(query: &QueryParams, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.get(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| invalid_integer(key, text))
}

/// The session a path names, if it lives.
async fn require_live_session(
    app: &AppState,
    RequestContext(ctx): RequestContext,
    text: String,
) -> Result<SessionId, ApiError> {
    app.run_blocking(move |app| {
        let unknown = || {
            let message = format!("Session not found: {text}");
            ApiError::tagged(StatusCode::NOT_FOUND, "SessionNotFoundError", &message)
                .with_field("sessionID", text.as_str())
        };
        let id: SessionId = text.parse().map_err(|_| unknown())?;
        match app.engine().store().read(&ctx, |r| r.sessions().find(&id))? {
            Some(_) => Ok(id),
            None => Err(unknown()),
        }
    })
    .await
}

/// `GET /api/session/{sessionID}/event`
async fn session_events(
    State(app): State<AppState>,
    ConnectInfo(peer): ConnectInfo<ConnectionPeer>,
    caller: RequestContext,
    Path(session): Path<String>,
    headers: HeaderMap,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let number = |number: i64| StreamPlace::after(LogCursor(number.max(-1)));
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let place = match header {
        Some(text) => StreamPlace::parse(text).or_else(|| text.parse().ok().map(number)),
        None => Some(number(integer_param(&query, "after")?.unwrap_or(-1))),
    };
    let place = place.ok_or_else(|| invalid_integer("after", header.unwrap_or_default()))?;
    let id = require_live_session(&app, caller, session).await?;
    app.hub().open_session_stream(peer.id, id, place).await
}

/// `GET /api/session/{sessionID}/history`
async fn session_history(
    State(app): State<AppState>,
    caller: RequestContext,
    Path(session): Path<String>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let after = integer_param(&query, "after")?.unwrap_or(-1).max(-1);
    let limit = match integer_param(&query, "limit")? {
        None => PAGE_LIMITS.0,
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) if (1..=PAGE_LIMITS.1).contains(&limit) => limit,
            _ => {
                let message = format!("Expected a value between 1 and {}", PAGE_LIMITS.1);
                let status = StatusCode::BAD_REQUEST;
                let refused = ApiError::tagged(status, "InvalidRequestError", &message);
                return Err(refused.with_field("kind", "Query"));
            }
        },
    };
    let ctx = caller.0.clone();
    let id = require_live_session(&app, caller, session).await?;
    app.run_blocking(move |app| {
        let (found, more) = history_page(app.engine(), &ctx, &id, after, limit)?;
        let json = format!(r#"{{"data":[{}],"hasMore":{more}}}"#, found.join(","));
        let mut response = Response::new(Body::from(json));
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    })
    .await
}
