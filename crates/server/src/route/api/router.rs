//! All of them, with their own words for errors.

use axum::Router;
use axum::middleware::from_fn;

use super::{
    catalog, compact, fs, location, message, pty, request, revert, session, tagged_errors,
};
use crate::app::AppState;

/// The routes under `/api`.
pub(in crate::route) fn routes() -> Router<AppState> {
    Router::new()
        .merge(catalog::routes())
        .merge(compact::routes())
        .merge(fs::routes())
        .merge(location::routes())
        .merge(message::routes())
        .merge(pty::routes())
        .merge(request::routes())
        .merge(revert::routes())
        .merge(session::routes())
        .layer(from_fn(tagged_errors::translate_errors))
}
