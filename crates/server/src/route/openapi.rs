//! The server describes itself.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::AppState;
use crate::doc::openapi_document;
use crate::error::ApiError;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/doc", get(read))
}

/// `GET /doc`
async fn read() -> Result<Response, ApiError> {
    let text = openapi_document().map_err(|error| ApiError::unexpected(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
