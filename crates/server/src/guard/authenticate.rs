//! Who may ask: the password, if there is one, and how often.

use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::password::{self, CredentialCheck};
use super::password_failures::DelayedAnswer;
use crate::app::AppState;
use crate::connection::ConnectionHandle;
use crate::error::ApiError;
use crate::peer::{ConnectionPeer, Transport};
use crate::pty::requested_ticket;

/// A request that is not let through.
pub(super) struct AuthRejection {
    response: Response,
    delay: Option<(Duration, DelayedAnswer)>,
}

impl AuthRejection {
    fn immediate(response: Response) -> Box<Self> {
        Box::new(Self { response, delay: None })
    }

    /// The answer, when it may be given. The request must be gone by now: nothing of it waits.
    pub(super) async fn answer(self) -> Response {
        if let Some((delay, counted)) = self.delay {
            tokio::time::sleep(delay).await;
            drop(counted);
        }
        self.response
    }
}

/// Lets a request through, or says how it is answered.
pub(super) fn authenticate(app: &AppState, request: &Request) -> Result<(), Box<AuthRejection>> {
    let peer = request.extensions().get::<ConnectInfo<ConnectionPeer>>().map(|info| info.0);
    let (now, rates) = (app.now(), app.rates());
    let wanted = app.settings().credentials.as_ref();
    // Only the server's own user gets through the Unix socket, or without a password to the port.
    let is_own = peer.is_some_and(|peer| peer.transport == Transport::Unix);
    let presented = match wanted {
        Some(wanted) if !is_own => password::check_credentials(wanted, request),
        Some(_) | None => CredentialCheck::Right,
    };
    // A page cannot send the password with the request that opens a WebSocket.
    let ticket = requested_ticket(request.uri());
    let ticket = ticket.filter(|_| presented == CredentialCheck::Nothing);
    let is_ticket_valid =
        ticket.as_ref().is_some_and(|ticket| app.terminals().is_valid_ticket(ticket, now));
    let presented = if is_ticket_valid { CredentialCheck::Right } else { presented };
    let is_known = presented == CredentialCheck::Right;
    let rate = if is_known { &rates.authenticated } else { &rates.anonymous };
    if peer.is_some_and(|peer| !rate.try_acquire(peer.id, now)) {
        return Err(AuthRejection::immediate(too_many_requests("too many requests")));
    }
    match presented {
        CredentialCheck::Right => {
            if let Some(connection) = request.extensions().get::<ConnectionHandle>() {
                connection.set_authenticated();
            }
            Ok(())
        }
        CredentialCheck::Nothing if ticket.is_some() => {
            Err(AuthRejection::immediate(StatusCode::FORBIDDEN.into_response()))
        }
        CredentialCheck::Nothing => {
            Err(AuthRejection::immediate(unauthorized(request.uri().path())))
        }
        CredentialCheck::Wrong => {
            let Some(peer) = peer else {
                return Err(AuthRejection::immediate(unauthorized(request.uri().path())));
            };
            let Some(delay) = rates.failures.record(peer.id, now) else {
                let mut response = too_many_requests("too many wrong passwords");
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
                return Err(AuthRejection::immediate(response));
            };
            let response = unauthorized(request.uri().path());
            Err(Box::new(AuthRejection { response, delay: Some(delay) }))
        }
    }
}

fn too_many_requests(message: &str) -> Response {
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
