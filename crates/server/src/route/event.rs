//! Event streams.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::event::{Listener, StreamPlace, Wire};
use crate::input::Query;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/event", get(instance))
        .route("/global/event", get(global))
        .route("/api/event", get(api))
}

/// Where a client was before: the header of the standard, or `after` in the query.
fn after(headers: &HeaderMap, query: &Query) -> Result<Option<StreamPlace>, ApiError> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let Some(text) = header.filter(|text| !text.is_empty()).or(query.filled("after")) else {
        return Ok(None);
    };
    match StreamPlace::parse(text) {
        Some(place) => Ok(Some(place)),
        None => Err(query.refuse("after", "the id of an event of this stream", text)),
    }
}

/// `GET /event`
async fn instance(
    State(app): State<App>,
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
    app.hub().listen(Listener { wire: Wire::Instance, directory, after }).await
}

/// `GET /global/event`
async fn global(
    State(app): State<App>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let after = after(&headers, &query)?;
    app.hub().listen(Listener { wire: Wire::Global, directory: None, after }).await
}

/// `GET /api/event`
async fn api(
    State(app): State<App>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let after = after(&headers, &query)?;
    app.hub().listen(Listener { wire: Wire::Api, directory: None, after }).await
}
