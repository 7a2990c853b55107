//! The server describes itself.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;
use crate::doc::document;
use crate::error::ApiError;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/doc", get(read))
}

/// `GET /doc`
async fn read() -> Result<Response, ApiError> {
    let text = document().map_err(|error| ApiError::unexpected(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
