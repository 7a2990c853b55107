//! The one check every request passes.

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{host, origin, password};
use crate::app::App;
use crate::error::ApiError;
use crate::serve::Peer;

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
        None => next.run(request).await,
    };
    origin::mark(&origin, given.as_ref(), response.headers_mut());
    response
}

fn refuse(app: &App, request: &Request, origin: &origin::Origin) -> Option<Response> {
    let settings = app.settings();
    if !host::is_ours(settings, request.headers(), request.uri()) {
        let message = "this name does not belong to this server";
        let status = StatusCode::MISDIRECTED_REQUEST;
        return Some(ApiError::tagged(status, "MisdirectedRequest", message).into_response());
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && matches!(origin, origin::Origin::Foreign) {
        let message = "pages of this origin may not change anything here";
        return Some(ApiError::tagged(StatusCode::FORBIDDEN, "Forbidden", message).into_response());
    }
    let (now, rates) = (app.now(), app.rates());
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|info| info.0.0.ip());
    if peer.is_some_and(|ip| !rates.asked.allows(ip, now)) {
        return Some(too_many("too many requests"));
    }
    // Asked before the password is looked at: nobody learns by the answer that one of many was right.
    if settings.credentials.is_some() && peer.is_some_and(|ip| !rates.wrong.would_allow(ip, now)) {
        return Some(too_many("too many wrong passwords"));
    }
    if !password::is_right(settings, request) {
        peer.map(|ip| rates.wrong.allows(ip, now));
        return Some(unauthorized(request.uri().path()));
    }
    None
}

fn too_many(message: &str) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut response = ApiError::tagged(status, "TooManyRequests", message).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn unauthorized(path: &str) -> Response {
    let status = StatusCode::UNAUTHORIZED;
    let mut response = if path.starts_with("/api/") || path.starts_with("/turnstone/") {
        ApiError::tagged(status, "UnauthorizedError", "Authentication required").into_response()
    } else {
        status.into_response()
    };
    let realm = HeaderValue::from_static("Basic realm=\"Secure Area\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    response
}
