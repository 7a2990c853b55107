//! The one check every request passes.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::authenticate::authenticate;
use super::{host, origin};
use crate::app::App;
use crate::error::ApiError;
use crate::peer::{Peer, Transport};

/// Lets a request through, or answers it.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match origin::admit(app.settings(), &request) {
        Ok(origin) => answer(&app, &origin, request, next).await,
        Err(forbidden) => forbidden.into_response(),
    };
    origin::isolate(response.headers_mut());
    response
}

/// Answers a request whose origin is admitted.
async fn answer(
    app: &App,
    origin: &origin::RequestOrigin,
    request: Request,
    next: Next,
) -> Response {
    if request.method() == Method::OPTIONS {
        return origin::preflight(origin, request.headers());
    }
    let mut response = match refuse(app, &request) {
        Some(response) => response,
        None => match authenticate(app, &request) {
            Ok(()) => next.run(request).await,
            Err(rejection) => {
                drop(request);
                rejection.answer().await
            }
        },
    };
    origin::share_with(origin, response.headers_mut());
    response
}

fn refuse(app: &App, request: &Request) -> Option<Response> {
    let settings = app.settings();
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| info.0);
    // No browser opens a Unix socket, so no page can have pointed a name of its own at it.
    let is_unix = peer.is_some_and(|peer| peer.transport == Transport::Unix);
    if !is_unix && !host::is_ours(settings, request.headers(), request.uri()) {
        let message = "this name does not belong to this server";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Some(ApiError::tagged(status, "MisdirectedRequest", message).into_response());
    }
    None
}
