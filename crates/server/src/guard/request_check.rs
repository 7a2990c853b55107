//! The one check every request passes.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::authenticate::authenticate;
use super::{host, origin};
use crate::app::AppState;
use crate::error::ApiError;
use crate::peer::{ConnectionPeer, Transport};

/// Lets a request through, or answers it.
pub(crate) async fn check_request(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<ConnectionPeer>>().map(|info| info.0);
    // No browser opens a Unix socket, so the name in `Host` means nothing there.
    let is_unix = peer.is_some_and(|peer| peer.transport == Transport::Unix);
    let host = host::requested_host(&request);
    let host = if is_unix { Ok(host.unwrap_or_default()) } else { host };
    let admitted = host.and_then(|host| {
        let origin = origin::admit_origin(app.settings(), request.headers(), host.as_ref())?;
        Ok((origin, is_unix || host::is_own_host(app.settings(), host.as_ref())))
    });
    let mut response = match admitted {
        Ok((origin, is_our_name)) => {
            handle_admitted(&app, (&origin, is_our_name), request, next).await
        }
        Err(refusal) => refusal.into_response(),
    };
    origin::add_isolation_headers(response.headers_mut());
    response
}

/// Answers a request whose origin is admitted.
async fn handle_admitted(
    app: &AppState,
    (origin, is_our_name): (&origin::RequestOrigin, bool),
    request: Request,
    next: Next,
) -> Response {
    // The name comes first: a preflight is answered before the password is asked for.
    if is_our_name && request.method() == Method::OPTIONS {
        return origin::preflight_response(origin, request.headers());
    }
    let mut response = if !is_our_name {
        let message = "this name does not belong to this server";
        let status = StatusCode::MISDIRECTED_REQUEST;
        ApiError::tagged(status, "MisdirectedRequest", message).into_response()
    } else {
        match authenticate(app, &request) {
            Ok(()) => next.run(request).await,
            Err(rejection) => {
                drop(request);
                rejection.answer().await
            }
        }
    };
    origin::add_cors_headers(origin, response.headers_mut());
    response
}
