//! Requests and responses in the log of the server.
//!
//! A line tells method, path, status, time and where it came from: never the query or a header, in which
//! there may be a password, and never a body.

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::AppState;
use crate::peer::ConnectionPeer;

/// Logs a request once it has an answer; a stream, once it is open.
pub(crate) async fn log_request(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    if !tracing::enabled!(tracing::Level::INFO) {
        return next.run(request).await;
    }
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let peer = request.extensions().get::<ConnectInfo<ConnectionPeer>>().map(|info| info.0.id);
    let from = peer.map(|peer| peer.to_string()).unwrap_or_default();
    let asked = app.now();
    let response = next.run(request).await;
    let (status, took) = (response.status().as_u16(), app.now().since(asked));
    tracing::info!("{method} {path} {status} in {took} ms from {from}");
    response
}
