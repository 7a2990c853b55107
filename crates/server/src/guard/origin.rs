//! Web pages: which origins may send requests, and the headers for their browsers.
//!
//! A browser names the page behind a request in `Origin` and says in `Sec-Fetch-Site` how that page relates to
//! this server; pages cannot forge either. A request with neither comes from a native client. `Sec-Fetch-Mode`
//! is no evidence of a browser, because Node.js sends it too.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::host;
use crate::error::ApiError;
use crate::settings::ServerSettings;

const ALLOWED_METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, PUT, PATCH, POST, DELETE");
const PREFLIGHT_MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Origins of desktop clients whose pages are part of the installed program, so no web page can have them.
const DESKTOP_CLIENTS: [&str; 2] = ["tauri://localhost", "oc://renderer"];

/// The origin of a request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestOrigin {
    /// Not named: a native client, or a browser that leaves it out for its own reasons.
    Unnamed,
    /// A page of this server.
    Own(HeaderValue),
    /// A page of an allowed origin elsewhere: every request of it is cross-site.
    Allowed(HeaderValue),
}

/// Decides whether the page behind a request may send it, whatever its method and route.
///
/// # Errors
///
/// 403 `ForbiddenOrigin`. A value that cannot be understood and a repeated header are refused too. The error
/// does not repeat the origin.
pub(super) fn admit_origin(
    settings: &ServerSettings,
    headers: &HeaderMap,
    host: Option<&Authority>,
) -> Result<RequestOrigin, ApiError> {
    let forbidden = || {
        let message = "this origin is not allowed; `turnstone serve --cors ORIGIN` allows one";
        ApiError::tagged(StatusCode::FORBIDDEN, "ForbiddenOrigin", message)
    };
    let origin =
        match single_header(headers, &header::ORIGIN).map_err(|RepeatedHeader| forbidden())? {
            None => RequestOrigin::Unnamed,
            Some(value) => classify_origin(settings, host, value).ok_or_else(forbidden)?,
        };
    let site = single_header(headers, &SEC_FETCH_SITE).map_err(|RepeatedHeader| forbidden())?;
    let is_elsewhere = site.is_some_and(|site| site != "same-origin" && site != "none");
    if is_elsewhere && !matches!(origin, RequestOrigin::Allowed(_)) {
        return Err(forbidden());
    }
    Ok(origin)
}

/// A header that may occur once occurs more often.
struct RepeatedHeader;

fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, RepeatedHeader> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() { Err(RepeatedHeader) } else { Ok(first) }
}

/// What an `Origin` is to this server; nothing if its pages may not send requests.
fn classify_origin(
    settings: &ServerSettings,
    host: Option<&Authority>,
    value: &HeaderValue,
) -> Option<RequestOrigin> {
    let origin = value.to_str().ok()?;
    if is_own_origin(settings, host, origin) {
        return Some(RequestOrigin::Own(value.clone()));
    }
    let is_listed = settings.origins.iter().any(|listed| listed == origin);
    let is_allowed = is_listed || DESKTOP_CLIENTS.contains(&origin);
    is_allowed.then(|| RequestOrigin::Allowed(value.clone()))
}

/// True for the origin of this server itself, by a name it answers to.
fn is_own_origin(settings: &ServerSettings, host: Option<&Authority>, origin: &str) -> bool {
    let Some(name) = host else { return false };
    let by_http = origin.strip_prefix("http://");
    // A proxy that adds TLS needs a password here, and this server does not see the TLS.
    let by_proxy = origin.strip_prefix("https://").filter(|_| settings.credentials.is_some());
    host::is_own_host(settings, host)
        && by_http.or(by_proxy).is_some_and(|own| own.eq_ignore_ascii_case(name.as_str()))
}

/// Answers the question a browser asks before the request itself.
pub(super) fn preflight_response(origin: &RequestOrigin, headers: &HeaderMap) -> Response {
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    let allowed = wanted.unwrap_or_else(|| HeaderValue::from_static(""));
    answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
    add_cors_headers(origin, answer);
    response
}

/// Lets pages of an admitted origin read the answer.
pub(super) fn add_cors_headers(origin: &RequestOrigin, answer: &mut HeaderMap) {
    let (RequestOrigin::Own(value) | RequestOrigin::Allowed(value)) = origin else { return };
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value.clone());
    if answer.contains_key("x-next-cursor") {
        let names = HeaderValue::from_static("Link, X-Next-Cursor");
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
}

/// Marks an answer, also a refusal, as one that depends on the page and belongs to this origin alone.
///
/// Browsers send `Sec-Fetch-Site` only to loopback addresses and over TLS. Elsewhere
/// `Cross-Origin-Resource-Policy` keeps images and scripts out of foreign pages that have cached credentials.
pub(super) fn add_isolation_headers(answer: &mut HeaderMap) {
    answer.append(header::VARY, HeaderValue::from_static("Origin, Sec-Fetch-Site"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    answer.insert(policy, HeaderValue::from_static("same-origin"));
    answer.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}
