//! Event streams.

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use turnstone_core::id::SessionId;
use turnstone_core::time::Cursor;

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::event::{Listener, StreamPlace, Wire, page};
use crate::input::Query;
use crate::peer::Peer;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/event", get(instance))
        .route("/global/event", get(global))
        .route("/api/event", get(api))
        .route("/api/session/{session}/event", get(session_events))
        .route("/api/session/{session}/history", get(session_history))
}

/// Where a client was before: the header of the standard, or `after` in the query.
///
/// Clients send the header by themselves, so one that is of another server is no mistake of theirs: it is
/// a place this log never reached. What stands in a query somebody wrote.
fn after(headers: &HeaderMap, query: &Query) -> Result<Option<StreamPlace>, ApiError> {
    if let Some(text) = headers.get("last-event-id").filter(|value| !value.is_empty()) {
        let place = text.to_str().ok().and_then(StreamPlace::parse);
        return Ok(Some(place.unwrap_or(StreamPlace::NOWHERE)));
    }
    let Some(text) = query.filled("after") else { return Ok(None) };
    match StreamPlace::parse(text) {
        Some(place) => Ok(Some(place)),
        None => Err(query.refuse("after", "the id of an event of this stream", text)),
    }
}

/// `GET /event`
async fn instance(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Caller(ctx): Caller,
    asked: Asked,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let after = after(&headers, &query)?;
    let place = app.blocking(move |app| Ok((app.find_place(&ctx, &asked.directory)?, asked))).await;
    let (place, asked) = place?;
    let directory = place.map_or(asked.directory, |place| place.directory);
    let directory = Some(directory.to_string_lossy().into_owned());
    app.hub().listen(Listener { peer: peer.id, wire: Wire::Instance, directory, after }).await
}

/// `GET /global/event`
async fn global(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let after = after(&headers, &query)?;
    app.hub().listen(Listener { peer: peer.id, wire: Wire::Global, directory: None, after }).await
}

/// `GET /api/event`
async fn api(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let after = after(&headers, &query)?;
    app.hub().listen(Listener { peer: peer.id, wire: Wire::Api, directory: None, after }).await
}

/// How many events a page of history has unless the client says otherwise, and at most.
const PAGE: (usize, usize) = (50, 100);

/// A refusal in the form of the second interface.
fn invalid(key: &str, text: &str) -> ApiError {
    let got = text.parse::<f64>().map_or_else(|_| "NaN".to_owned(), |number| number.to_string());
    let message = format!("Expected an integer, got {got}\n  at [\"{key}\"]");
    ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", &message).with("kind", "Query")
}

/// A whole number of the query.
fn whole(query: &Query, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.get(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| invalid(key, text))
}

/// The session a path names, if it lives.
async fn living(app: &App, Caller(ctx): Caller, text: String) -> Result<SessionId, ApiError> {
    app.blocking(move |app| {
        let unknown = || {
            let message = format!("Session not found: {text}");
            ApiError::tagged(StatusCode::NOT_FOUND, "SessionNotFoundError", &message)
                .with("sessionID", text.as_str())
        };
        let id: SessionId = text.parse().map_err(|_| unknown())?;
        match app.engine().store().read(&ctx, |r| r.find_session(&id))? {
            Some(_) => Ok(id),
            None => Err(unknown()),
        }
    })
    .await
}

/// `GET /api/session/{sessionID}/event`
async fn session_events(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    caller: Caller,
    Path(session): Path<String>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let number = |number: i64| StreamPlace::after(Cursor(number.max(-1)));
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let place = match header {
        Some(text) => StreamPlace::parse(text).or_else(|| text.parse().ok().map(number)),
        None => Some(number(whole(&query, "after")?.unwrap_or(-1))),
    };
    let place = place.ok_or_else(|| invalid("after", header.unwrap_or_default()))?;
    let id = living(&app, caller, session).await?;
    app.hub().listen_to(peer.id, id, place).await
}

/// `GET /api/session/{sessionID}/history`
async fn session_history(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    let after = whole(&query, "after")?.unwrap_or(-1).max(-1);
    let limit = match whole(&query, "limit")? {
        None => PAGE.0,
        Some(limit) => match usize::try_from(limit) {
            Ok(limit) if (1..=PAGE.1).contains(&limit) => limit,
            _ => {
                let message = format!("Expected a value between 1 and {}", PAGE.1);
                let status = StatusCode::BAD_REQUEST;
                let refused = ApiError::tagged(status, "InvalidRequestError", &message);
                return Err(refused.with("kind", "Query"));
            }
        },
    };
    let ctx = caller.0.clone();
    let id = living(&app, caller, session).await?;
    app.blocking(move |app| {
        let (found, more) = page(app.engine(), &ctx, &id, after, limit)?;
        let json = format!(r#"{{"data":[{}],"hasMore":{more}}}"#, found.join(","));
        let mut response = Response::new(Body::from(json));
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    })
    .await
}
