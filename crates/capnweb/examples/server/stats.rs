//! What the server holds, for tests that look for leaks: `GET /stats`.

use axum::Router;
use axum::routing::get;
use capnweb::net::RpcServer;

/// Serves the figures of a service as JSON.
pub(crate) fn router(server: RpcServer) -> Router {
    let body = move || {
        let stats = server.stats();
        let (sessions, exports, imports) = (stats.sessions, stats.exports, stats.imports);
        let (held, outgoing) = (stats.held_bytes, stats.outgoing_bytes);
        std::future::ready(format!(
            "{{\"sessions\":{sessions},\"exports\":{exports},\"imports\":{imports},\
             \"heldBytes\":{held},\"outgoingBytes\":{outgoing}}}"
        ))
    };
    Router::new().route("/stats", get(body))
}
