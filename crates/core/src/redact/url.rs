//! URLs without login, parameters and the secret parts of their paths.

use super::REDACTED;
use super::name::is_secret_name;
use super::shape::is_value_like;
use super::text::TextKind;

/// The shortest query or fragment without a name that is hidden.
const SHORTEST_BARE: usize = 14;

/// One or several URLs without a space between them.
pub(super) fn redact_url(url: &str, kind: TextKind) -> String {
    let mut shown = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(start) = rest.find("://").map(|at| at + 3) {
        let end = next_url(rest, start).unwrap_or(rest.len());
        shown.push_str(&redact_one(&rest[..end], start, kind));
        rest = &rest[end..];
    }
    shown.push_str(rest);
    shown
}

/// Where the scheme of the next URL begins, after `start`.
fn next_url(text: &str, start: usize) -> Option<usize> {
    let at = start + text[start..].find("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let (before, c) = text[start..at].char_indices().rev().find(|(_, c)| !is_scheme(*c))?;
    Some(start + before + c.len_utf8())
}

fn redact_one(url: &str, start: usize, kind: TextKind) -> String {
    let (scheme, after) = url.split_at(start);
    let (login_end, authority_end) = authority(after);
    let host = &after[login_end..authority_end];
    let rest = &after[authority_end..];
    let (path, parameters) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let login = if login_end > 0 { "[redacted]@" } else { "" };
    let path = redact_path(host, path);
    format!("{scheme}{login}{host}{path}{}", redact_parameters(parameters, kind))
}

/// Where the host begins and ends in what follows the scheme.
fn authority(after: &str) -> (usize, usize) {
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    if let Some(at) = after[..end].rfind('@') {
        return (at + 1, end);
    }
    // An invalid port is part of a password with a slash in it.
    let port = after[..end].rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.chars().all(|c| c.is_ascii_digit()) || after.starts_with('[');
    match after.rfind('@').filter(|_| !is_port) {
        Some(at) => {
            let host = &after[at + 1..];
            (at + 1, at + 1 + host.find(['/', '?', '#']).unwrap_or(host.len()))
        }
        None => (0, end),
    }
}

/// Hides the parts of a path that are the key of a webhook.
fn redact_path(host: &str, path: &str) -> String {
    let host = host.to_ascii_lowercase();
    let is_hook_host = host.starts_with("hooks.") || host.starts_with("webhook");
    let (mut after_hook, mut after_name) = (is_hook_host, false);
    let mut shown = Vec::new();
    for (index, part) in path.split('/').enumerate() {
        let is_hook = part.to_ascii_lowercase().contains("webhook") || part == "hooks";
        let is_bot = part.starts_with("bot") && part.contains(':');
        let is_key = after_hook
            && (is_hook_host && index > 1
                || part.len() >= 20
                || part.contains(|c: char| c.is_ascii_digit()));
        let is_named = after_name && is_value_like(part, 6);
        let is_secret = !is_hook && !part.is_empty() && (is_bot || is_key || is_named);
        shown.push(if is_secret { REDACTED } else { part });
        after_hook |= is_hook;
        after_name = is_secret_name(part);
    }
    shown.join("/")
}

/// `?a=b&c=d#e` without values.
///
/// In prose only values that look like one or have the name of a secret are hidden.
fn redact_parameters(text: &str, kind: TextKind) -> String {
    let is_end = |c: char| "?&;#".contains(c);
    let mut shown = String::new();
    for piece in text.split_inclusive(is_end) {
        let value = piece.trim_end_matches(is_end);
        let end = &piece[value.len()..];
        let is_setting = kind == TextKind::Setting;
        match value.split_once('=') {
            Some((name, value))
                if !value.is_empty()
                    && (is_setting || is_secret_name(name) || is_value_like(value, 8)) =>
            {
                shown.push_str(&format!("{name}={REDACTED}"));
            }
            None if is_setting && value.len() >= SHORTEST_BARE => shown.push_str(REDACTED),
            _ => shown.push_str(value),
        }
        shown.push_str(end);
    }
    shown
}
