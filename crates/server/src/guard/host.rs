//! The name a client used for this server: another one is a page that had it point here.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use crate::settings::Settings;

/// True if the name the request used is one of this server's.
///
/// With a password a page gains nothing by pointing a name of its own here, and servers behind a proxy
/// have names nobody told them: then every name is right.
pub(super) fn is_ours(settings: &Settings, headers: &HeaderMap, uri: &Uri) -> bool {
    if settings.credentials.is_some() {
        return true;
    }
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return false;
    }
    let Some(host) = name_used(headers, uri) else {
        // HTTP/1.0 has no name; such a client is no browser.
        return true;
    };
    let name = without_port(host);
    if name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost") {
        return true;
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == settings.listen.ip())
}

/// The name and port that the request used for this server.
pub(super) fn name_used<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let named = headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default());
    uri.authority().map(|authority| authority.as_str()).or(named)
}

/// `name` or `[address]` of `name:port`.
fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}
