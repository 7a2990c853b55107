//! The requests of one connection.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::Version;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;

use super::active_body::ActiveBody;
use super::connection_table::ConnectionHandle;
use super::stream_socket::{SplitSocket, share_socket};
use super::write_timeout::WriteTimeout;
use crate::peer::ConnectionPeer;
use crate::settings::RequestLimits;

/// The largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Answers the requests of one connection in a task of its own, until the client goes, the server ends,
/// or the connection has to make way. A connection that becomes a WebSocket goes on by itself.
pub(super) fn serve_connection<S>(
    socket: S,
    peer: ConnectionPeer,
    handle: ConnectionHandle,
    (router, limits): (Router, RequestLimits),
    mut stopping: watch::Receiver<bool>,
) where
    S: SplitSocket,
{
    let routes = TowerToHyperService::new(router);
    let marked = handle.clone();
    let (socket, write_side) = share_socket(socket);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(marked.clone());
        // Only its streams are sent in chunks.
        if request.version() == Version::HTTP_11 {
            request.extensions_mut().insert(write_side.clone());
        }
        let active = marked.begin_request();
        let answering = routes.call(request);
        async move {
            let response = answering.await?;
            Ok::<_, std::convert::Infallible>(
                response.map(|body| Body::new(ActiveBody::new(body, active))),
            )
        }
    });
    let socket =
        TokioIo::new(WriteTimeout::new(socket, Duration::from_secs(limits.write_timeout_secs)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_timeout_secs))
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(socket, service)
        .with_upgrades();
    tokio::spawn(async move {
        let mut connection = std::pin::pin!(connection);
        let serving = async {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        };
        tokio::select! {
            ended = serving => if let Err(error) = ended {
                tracing::debug!("a connection ended early: {error}");
            },
            () = handle.wait_for_eviction() => {}
        }
    });
}
