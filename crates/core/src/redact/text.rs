//! Secrets inside a text: in URLs, flags, assignments, headers and logins, and by their shape.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::name::is_secret_name;
use super::pattern::{Match, Pattern, compile, hide, replace};
use super::shape::{is_value_like, redact_private_keys, redact_shapes};
use super::url::redact_url;
use super::value::redact;

/// What kind of text is redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// A value of a configuration: what has the name of a secret is one.
    Setting,
    /// Sentences for people or models: a name says nothing unless a value follows that looks like one.
    Prose,
}

/// Prefixes before a colon that are followed by a name and not by a password.
const PACKAGE_SCHEMES: [&str; 14] = [
    "npm",
    "jsr",
    "pkg",
    "github",
    "gitlab",
    "file",
    "link",
    "workspace",
    "docker",
    "oci",
    "mailto",
    "acct",
    "ssh",
    "git",
];

static URL: Pattern = Pattern::new(|| compile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'<>`]+"));
static LOGIN: Pattern =
    Pattern::new(|| compile(r#"\b([A-Za-z][A-Za-z0-9_.-]*):([^\s@/:"'\[]+)@([A-Za-z0-9\[]\S*)"#));
static SCHEME: Pattern =
    Pattern::new(|| compile(r#"(?i)\b(bearer|basic|token)[ \t]+["']?([^\s"',;]+)"#));
static HEADER_FLAG: Pattern = Pattern::new(|| {
    compile(r#"(?:^|[\s"'])(?:-H|--headers?)(?:=|[ \t]*)(["']?)([A-Za-z0-9_-]+):[ \t]*"#)
});
static FLAG: Pattern = Pattern::new(|| {
    compile(r#"(?:^|[\s"'])--?([A-Za-z][A-Za-z0-9_.-]*)[ \t]+("[^"]*"|'[^']*'|[^\s"'-]\S*)"#)
});
static LOGIN_FLAG: Pattern =
    Pattern::new(|| compile(r#"(?:^|[\s"'`])(?:-u|--user)(?:=|[ \t]+)(["']?)([^\s:"'`$<{(]+):"#));
static SHORT_PASSWORD: Pattern = Pattern::new(|| compile(r"(?:^|\s)-p(\S+)"));
static ASSIGNMENT: Pattern =
    Pattern::new(|| compile(r#"([A-Za-z_][A-Za-z0-9_.-]*)["']?[ \t]*([=:])[ \t]*"#));

/// Hides every secret in a value of a configuration that can be recognised.
#[must_use]
pub fn redact_text(text: &str) -> String {
    redact_as(text, TextKind::Setting)
}

/// Hides secrets in sentences by their values alone: tokens, logins and parameters of URLs, private keys.
#[must_use]
pub fn redact_prose(text: &str) -> String {
    redact_as(text, TextKind::Prose)
}

fn redact_as(text: &str, kind: TextKind) -> String {
    if let Some(document) = redact_json(text) {
        return document;
    }
    let text = redact_private_keys(text);
    let text =
        replace(&text, &URL, |found| Some((found.range(0)?, redact_url(found.group(0), kind))));
    let text = hide(&text, &LOGIN, login_password);
    let text = hide(&text, &SCHEME, |found| scheme_value(found, &text, kind));
    let text = match kind {
        TextKind::Setting => redact_flags(&text),
        TextKind::Prose => hide(&text, &LOGIN_FLAG, |found| login_flag_password(found, &text)),
    };
    let text = hide(&text, &ASSIGNMENT, |found| assigned_value(found, &text, kind));
    redact_shapes(&text)
}

/// A text that is a JSON document, if something in it is hidden.
fn redact_json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let mut shown = value.clone();
    redact(&mut shown);
    Some(if shown == value { text.to_owned() } else { shown.to_string() })
}

/// The password of `name:password@host` without a scheme.
fn login_password(found: &Match<'_>) -> Option<Range<usize>> {
    let is_package = PACKAGE_SCHEMES.contains(&found.group(1));
    let is_digest = found.group(3).starts_with("sha256:");
    if is_package || is_digest { None } else { found.range(2) }
}

/// What follows `Bearer`, `Basic` or `token`.
fn scheme_value(found: &Match<'_>, text: &str, kind: TextKind) -> Option<Range<usize>> {
    let value = found.group(2);
    let is_setting = kind == TextKind::Setting;
    let is_secret = match found.group(1).to_ascii_lowercase().as_str() {
        "bearer" => is_setting || is_value_like(value, 8),
        "basic" => {
            let decoded = STANDARD.decode(value).unwrap_or_default();
            let is_whole = is_setting && found.range(0) == Some(0..text.trim_end().len());
            decoded.contains(&b':') || is_whole
        }
        _ => is_value_like(value, 8),
    };
    if is_secret { found.range(2) } else { None }
}

/// The password of `-u name:password` in a sentence.
///
/// For other programs than curl the flag may name a user and a group, as in `docker run -u node:node`:
/// there, only text that looks like a value is a password. Variables and placeholders are not passwords.
fn login_flag_password(found: &Match<'_>, text: &str) -> Option<Range<usize>> {
    let start = found.range(0)?.end;
    let rest = &text[start..];
    let length = match found.group(1) {
        "" => rest.find(|c: char| c.is_whitespace() || "\"'`;|&)".contains(c)),
        quote => rest.find(|c: char| quote.contains(c) || c == '\n'),
    };
    let password = &rest[..length.unwrap_or(rest.len())];
    let is_placeholder = password.starts_with(['$', '<', '{', '%']) || is_wildcard(password);
    let command = &text[command_start(text, found.range(0)?.start)..start];
    let is_curl = command.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "curl");
    let is_secret = !password.is_empty() && !is_placeholder;
    (is_secret && (is_curl || is_value_like(password, 6))).then(|| start..start + password.len())
}

/// Where the command line begins that `at` is in; a backslash before a line break continues it.
fn command_start(text: &str, at: usize) -> usize {
    let mut end = at;
    while let Some(line_break) = text[..end].rfind('\n') {
        if !text[..line_break].ends_with('\\') {
            return line_break + 1;
        }
        end = line_break;
    }
    0
}

fn redact_flags(text: &str) -> String {
    let text = hide(text, &HEADER_FLAG, |found| {
        let start = found.range(0)?.end;
        let end = match found.group(1) {
            "" => line_end(text, start),
            quote => text[start..].find(quote).map_or(text.len(), |at| start + at),
        };
        (start < end).then_some(start..end)
    });
    let text = hide(&text, &FLAG, |found| {
        let value = found.group(2);
        let is_secret = match found.group(1) {
            "u" | "user" => value.contains(':'),
            "p" => is_password_like(value),
            name => is_secret_name(name),
        };
        if is_secret && !is_wildcard(value) { found.range(2) } else { None }
    });
    hide(&text, &SHORT_PASSWORD, |found| {
        if is_password_like(found.group(1)) { found.range(1) } else { None }
    })
}

/// True if the value of `-p` is a password; it may be a port, a path or the rest of a longer flag.
pub(super) fn is_password_like(value: &str) -> bool {
    let is_word = value.chars().all(|c| c.is_ascii_lowercase() || "-_".contains(c));
    let is_port = value.chars().all(|c| c.is_ascii_digit() || ":.-/".contains(c));
    let is_path = value.contains('/') || value.starts_with('.');
    !is_word && !is_port && !is_path && !value.contains('=') && !is_wildcard(value)
}

pub(super) fn is_wildcard(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    !value.is_empty() && value.chars().all(|c| c == '*')
}

/// The value of `name=value` or `name: value` if the name is that of a secret.
fn assigned_value(found: &Match<'_>, text: &str, kind: TextKind) -> Option<Range<usize>> {
    let whole = found.range(0)?;
    let is_host = text[..whole.start].ends_with("//");
    if is_host || !is_secret_name(found.group(1)) {
        return None;
    }
    let rest = &text[whole.end..];
    let is_header = found.group(2) == ":";
    let word_end = |stops: &str| {
        let is_stop = |c: char| c.is_whitespace() || stops.contains(c);
        rest.find(is_stop).unwrap_or(rest.len())
    };
    let (start, length) = match (rest.chars().next()?, kind) {
        (quote @ ('"' | '\''), _) => {
            (1, rest[1..].find(quote).unwrap_or_else(|| line_end(&rest[1..], 0)))
        }
        (_, TextKind::Setting) if is_header => {
            (0, rest.find(['\n', '"', '\'']).unwrap_or(rest.len()))
        }
        _ => (0, word_end(";,&\"'")),
    };
    let value = &rest[start..start + length];
    let is_shown = value.is_empty()
        || value.starts_with("//")
        || is_wildcard(value)
        || kind == TextKind::Prose && !is_value_like(value, 6);
    (!is_shown).then(|| whole.end + start..whole.end + start + length)
}

fn line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |at| start + at)
}
