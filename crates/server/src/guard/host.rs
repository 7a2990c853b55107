//! The name a request uses for this server: `Host`, or the authority of an absolute-form target.
//!
//! A web page whose own name resolves to this machine (DNS rebinding) sends that name as `Host` and as
//! `Origin`, so equality of the two proves nothing: without a password the name itself must be ours.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Version, header};

use crate::error::ApiError;
use crate::settings::ServerSettings;

/// Finds the name a request uses for this server; HTTP/1.0 may leave it out.
///
/// # Errors
///
/// 400 `InvalidHostError` if `Host` is repeated, cannot be parsed, is missing in HTTP/1.1, or differs from
/// an absolute-form target: two programs could then disagree about which server is meant.
pub(super) fn requested_host(request: &Request) -> Result<Option<Authority>, ApiError> {
    let invalid =
        |message: &str| ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidHostError", message);
    let target = request.uri().authority();
    if target.is_some_and(|target| target.as_str().contains('@')) {
        return Err(invalid("the request target contains a user name"));
    }
    let mut values = request.headers().get_all(header::HOST).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(invalid("the request has several Host headers"));
    }
    let Some(value) = first else {
        if target.is_none() && request.version() == Version::HTTP_11 {
            return Err(invalid("the request has no Host header"));
        }
        return Ok(target.cloned());
    };
    let host =
        Authority::try_from(value.as_bytes()).ok().filter(|host| !host.as_str().contains('@'));
    let Some(host) = host else { return Err(invalid("the Host header is not a name and port")) };
    match target {
        Some(target) if !is_same(target, &host) => {
            Err(invalid("the request target and the Host header name different servers"))
        }
        _ => Ok(Some(host)),
    }
}

fn is_same(one: &Authority, other: &Authority) -> bool {
    let port = |authority: &Authority| authority.port_u16().unwrap_or(80);
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

/// True if this server answers to the name.
///
/// With a password it answers to every name: it cannot know the names of a proxy in front of it, and a
/// browser keeps credentials by origin, so a page that had its own name point here has none.
pub(super) fn is_own_host(settings: &ServerSettings, host: Option<&Authority>) -> bool {
    if settings.credentials.is_some() {
        return true;
    }
    // Only HTTP/1.0 leaves the name out, and no browser speaks it.
    let Some(host) = host else { return true };
    let name = host.host().to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return true;
    }
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == settings.listen.ip())
}
