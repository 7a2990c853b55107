//! The one check every request passes.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::authenticate::authenticate;
use super::{host, origin};
use crate::app::App;
use crate::error::ApiError;
use crate::peer::{Peer, Transport};

/// Lets a request through, or answers it.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let settings = app.settings();
    let given = request.headers().get(header::ORIGIN).cloned();
    let origin = origin::judge(settings, request.headers());
    if request.method() == Method::OPTIONS {
        return origin::preflight(&origin, request.headers());
    }
    let refused = refuse(&app, &request, &origin);
    let mut response = match refused {
        Some(response) => response,
        None => match authenticate(&app, &request) {
            Ok(()) => next.run(request).await,
            Err(rejection) => {
                drop(request);
                rejection.answer().await
            }
        },
    };
    origin::mark(&origin, given.as_ref(), response.headers_mut());
    response
}

fn refuse(app: &App, request: &Request, origin: &origin::Origin) -> Option<Response> {
    let settings = app.settings();
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| info.0);
    // No browser opens a Unix socket, so no page can have pointed a name of its own at it.
    let is_unix = peer.is_some_and(|peer| peer.transport == Transport::Unix);
    if !is_unix && !host::is_ours(settings, request.headers(), request.uri()) {
        let message = "this name does not belong to this server";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Some(ApiError::tagged(status, "MisdirectedRequest", message).into_response());
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && matches!(origin, origin::Origin::Foreign) {
        let message = "pages of this origin may not change anything here";
        return Some(ApiError::tagged(StatusCode::FORBIDDEN, "Forbidden", message).into_response());
    }
    None
}
