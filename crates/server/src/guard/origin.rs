//! Pages of other origins: which may ask, and what their browser is told.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::settings::Settings;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, PATCH, POST, DELETE");
const AGE: HeaderValue = HeaderValue::from_static("86400");

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Not from a page.
    None,
    /// From a page that may ask.
    Known,
    /// From any other page.
    Foreign,
}

/// Judges the origin of a request.
pub(super) fn judge(settings: &Settings, headers: &HeaderMap) -> Origin {
    let Some(value) = headers.get(header::ORIGIN) else { return Origin::None };
    let Ok(origin) = value.to_str() else { return Origin::Foreign };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let own = host.is_some_and(|host| origin.strip_prefix("http://") == Some(host));
    let told = settings.origins.iter().any(|one| one == origin);
    if own || told || is_client(origin) { Origin::Known } else { Origin::Foreign }
}

/// True for the origins of OpenCode's own pages and shells.
fn is_client(origin: &str) -> bool {
    let local = ["http://localhost:", "http://127.0.0.1:"];
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if local.iter().any(|start| origin.strip_prefix(start).is_some_and(is_port)) {
        return true;
    }
    let shells = ["tauri://localhost", "http://tauri.localhost", "https://tauri.localhost"];
    if shells.contains(&origin) || origin == "oc://renderer" {
        return true;
    }
    let name = origin.strip_prefix("https://").and_then(|name| name.strip_suffix(".opencode.ai"));
    name.is_some_and(|name| {
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        !name.is_empty() && name.bytes().all(is_letter)
    })
}

/// Answers the question a browser asks before the request itself.
pub(super) fn preflight(origin: &Origin, headers: &HeaderMap) -> Response {
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    let allowed = wanted.unwrap_or_else(|| HeaderValue::from_static(""));
    answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, AGE);
    mark(origin, headers.get(header::ORIGIN), answer);
    response
}

/// Tells the browser whether its page may read the answer.
pub(super) fn mark(origin: &Origin, given: Option<&HeaderValue>, answer: &mut HeaderMap) {
    answer.append(header::VARY, HeaderValue::from_static("Origin"));
    if let (Origin::Known, Some(value)) = (origin, given) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value.clone());
        if answer.contains_key("x-next-cursor") {
            let names = HeaderValue::from_static("Link, X-Next-Cursor");
            answer.insert(HeaderName::from_static("access-control-expose-headers"), names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_client;

    #[test]
    fn pages_of_the_clients_are_known_and_look_alikes_are_not() {
        for known in ["http://localhost:3000", "http://127.0.0.1:1", "tauri://localhost"] {
            assert!(is_client(known), "{known}");
        }
        assert!(is_client("https://app.opencode.ai"));
        for foreign in [
            "http://localhost",
            "http://localhost:3000.evil.example",
            "http://localhost.evil.example:80",
            "https://evil.example/.opencode.ai",
            "https://opencode.ai.evil.example",
            "https://.opencode.ai",
            "http://app.opencode.ai",
            "null",
        ] {
            assert!(!is_client(foreign), "{foreign}");
        }
    }
}
