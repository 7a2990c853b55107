//! Secrets inside a text: in URLs, flags, assignments and headers, and tokens of well-known issuers.
//!
//! Hides too much rather than too little: the configuration is shown to people and never read back.

use serde_json::Value;

use super::redact::redact;

/// What stands in the place of a secret.
pub(super) const HIDDEN: &str = "[redacted]";

/// Words that make the name of a field, a flag or a header that of a secret.
const WORDS: [&str; 15] = [
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "credential",
    "privatekey",
    "accesskey",
    "signature",
    "cookie",
    "bearer",
    "connectionstring",
    "webhook",
];

/// Names that mean a secret only when they are the whole name.
const NAMES: [&str; 9] = ["key", "auth", "pass", "pwd", "pat", "jwt", "sig", "pw", "psk"];

/// How the tokens of well-known issuers begin.
const PREFIXES: [&str; 41] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "npm_",
    "pypi-",
    "hf_",
    "gsk_",
    "xai-",
    "SG.",
    "dop_v1_",
    "shpat_",
    "tvly-",
    "pplx-",
    "r8_",
    "lin_api_",
    "ntn_",
    "figd_",
    "eyJ",
    "dckr_pat_",
];
/// The shortest such token: shorter words only look like one.
const SHORTEST_TOKEN: usize = 14;

/// True if a field, flag, variable or header of this name holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    let plain: String = letters.collect();
    let is_count = plain.ends_with("tokens");
    NAMES.contains(&plain.as_str()) || !is_count && WORDS.iter().any(|word| plain.contains(word))
}

/// The text with every secret replaced that can be recognised.
pub(super) fn redact_text(text: &str) -> String {
    if let Some(inner) = redact_json(text) {
        return inner;
    }
    if let Some((before, _)) = text.split_once("-----BEGIN ")
        && text.contains("PRIVATE KEY-----")
    {
        return format!("{before}{HIDDEN}");
    }
    text.split_inclusive('\n').map(redact_line).collect()
}

/// A JSON document in a text, redacted.
fn redact_json(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    redact(&mut value);
    Some(value.to_string())
}

/// How the next word of a line is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// By what it looks like.
    Plain,
    /// It is a secret.
    Secret,
    /// It is a secret if it has the form `name:password`.
    Login,
    /// The rest of the line is a secret, and is hidden already.
    Gone,
}

fn redact_line(line: &str) -> String {
    let (mut shown, mut next) = (String::with_capacity(line.len()), Next::Plain);
    let is_pair = line.split_whitespace().count() == 2;
    for piece in line.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = piece.get(word.len()..).unwrap_or_default();
        if word.is_empty() {
            shown.push_str(space);
            continue;
        }
        let is_secret = match next {
            Next::Gone => {
                // The line keeps its end.
                shown.push_str(if space == "\n" { space } else { "" });
                continue;
            }
            Next::Secret => !word.starts_with("--"),
            Next::Login => word.contains(':'),
            Next::Plain => false,
        };
        if is_secret {
            (shown, next) = (shown + HIDDEN, Next::Plain);
        } else {
            let (text, after) = redact_word(word, is_pair);
            (shown, next) = (shown + &text, after);
        }
        shown.push_str(space);
    }
    shown
}

/// One word, and what follows from it for the next.
fn redact_word(word: &str, is_pair: bool) -> (String, Next) {
    let bare = word.trim_matches(['"', '\'', '`', ',']);
    if bare.eq_ignore_ascii_case("bearer") || is_pair && bare.eq_ignore_ascii_case("basic") {
        return (word.to_owned(), Next::Secret);
    }
    if let Some(flag) = bare.strip_prefix('-').filter(|flag| is_name(flag)) {
        return match flag.trim_start_matches('-') {
            "u" | "user" => (word.to_owned(), Next::Login),
            name if is_secret_name(name) => (word.to_owned(), Next::Secret),
            _ => (word.to_owned(), Next::Plain),
        };
    }
    let head_end =
        word.find(['=', ':']).filter(|at| is_name(word[..*at].trim_matches(['"', '\''])));
    if let Some(at) = head_end {
        let (head, value) = word.split_at(at + 1);
        let name = head.trim_matches(['"', '\'', '-', '=', ':']);
        let is_header = head.ends_with(':');
        if is_secret_name(name) && !(is_header && value.starts_with("//")) {
            // A header goes on to the end of the line; an assignment ends with its word.
            let next = if is_header { Next::Gone } else { Next::Plain };
            return (format!("{head}{HIDDEN}"), next);
        }
        if !is_header {
            return (format!("{head}{}", redact_text(value)), Next::Plain);
        }
    }
    (redact_tokens(&redact_urls(word)), Next::Plain)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// URLs without name and password, and without the values of their parameters.
fn redact_urls(word: &str) -> String {
    let (path, parameters) = match word.find(['?', '#']) {
        Some(at) => word.split_at(at),
        None => (word, ""),
    };
    let mut shown = String::new();
    let mut rest = path;
    while let Some(start) = rest.find("://").map(|at| at + 3) {
        let (scheme, after) = rest.split_at(start);
        let mut host_end = after.find('/').unwrap_or(after.len());
        // The next URL begins where this one seems to end.
        if after[..host_end].ends_with(':') && after[host_end..].starts_with("//") {
            host_end -= 1;
        }
        let (host, path) = after.split_at(host_end);
        shown.push_str(scheme);
        match host.rfind('@') {
            Some(at) => shown.push_str(&format!("{HIDDEN}{}", &host[at..])),
            None => shown.push_str(host),
        }
        rest = path;
    }
    shown.push_str(rest);
    let is_url = path.contains("://");
    shown.push_str(&redact_parameters(parameters, is_url));
    shown
}

/// `?a=b&c=d#e` with the values hidden; outside of a URL only those with the name of a secret.
fn redact_parameters(text: &str, is_url: bool) -> String {
    let mut shown = String::new();
    for piece in text.split_inclusive(['?', '&', ';', '#']) {
        let value = piece.trim_end_matches(['?', '&', ';', '#']);
        let end = piece.get(value.len()..).unwrap_or_default();
        match value.split_once('=') {
            Some((name, value)) if !value.is_empty() && (is_url || is_secret_name(name)) => {
                shown.push_str(&format!("{name}={HIDDEN}"));
            }
            None if is_url && value.len() >= SHORTEST_TOKEN => shown.push_str(HIDDEN),
            _ => shown.push_str(value),
        }
        shown.push_str(end);
    }
    shown
}

/// Hides tokens of well-known issuers, wherever they stand in a word.
fn redact_tokens(word: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut shown = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let has_prefix = PREFIXES.iter().any(|prefix| token.starts_with(prefix));
        let is_token = has_prefix && token.len() >= SHORTEST_TOKEN;
        shown.push_str(if is_token { HIDDEN } else { token });
        let next = after.chars().next().map_or(0, char::len_utf8);
        shown.push_str(&after[..next]);
        rest = &after[next..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_texts_are_hidden_and_the_rest_stays() {
        let table = [
            (
                "https://u:p@host/a?api_key=S&x=S#token=S",
                "https://[redacted]@host/a?api_key=[redacted]&x=[redacted]#token=[redacted]",
            ),
            ("https://host/mcp?token=S", "https://host/mcp?token=[redacted]"),
            ("https://host/?SSSSSSSSSSSSSSSS", "https://host/?[redacted]"),
            ("https://one,https://u:S@two/x", "https://one,https://[redacted]@two/x"),
            (
                "postgres://ada:S@db:5432/x?sslmode=S",
                "postgres://[redacted]@db:5432/x?sslmode=[redacted]",
            ),
            ("https://plain/a@b", "https://plain/a@b"),
            ("/mcp?access_token=S&page=2", "/mcp?access_token=[redacted]&page=2"),
            ("--api-key=S", "--api-key=[redacted]"),
            ("npx x --token S --port 80", "npx x --token [redacted] --port 80"),
            ("curl -u ada:S https://h -u ada", "curl -u [redacted] https://h -u ada"),
            ("OPENAI_API_KEY=S node x", "OPENAI_API_KEY=[redacted] node x"),
            ("--url=https://h/?k=S", "--url=https://h/?k=[redacted]"),
            ("Authorization: Bearer S S", "Authorization:[redacted] "),
            ("x-api-key:S", "x-api-key:[redacted]"),
            ("BEARER S", "BEARER [redacted]"),
            ("bearer S", "bearer [redacted]"),
            ("Basic Zm9vOmJhcg==", "Basic [redacted]"),
            ("a Basic set of tools", "a Basic set of tools"),
            ("use sk-SSSSSSSSSSSSSSSS now", "use [redacted] now"),
            ("(ghp_SSSSSSSSSSSSSSSS)", "([redacted])"),
            ("AKIASSSSSSSSSSSSSSSS", "[redacted]"),
            ("xoxb-SSSSSSSSSSSS-S", "[redacted]"),
            ("https://h/sk-SSSSSSSSSSSSSSSS/x", "https://h/[redacted]/x"),
            ("eyJSSSSSSSSSS.SSSSSSS.SSSSSS", "[redacted]"),
            ("{\"a\":1,\"password\":\"S\"}", "{\"a\":1,\"password\":\"[redacted]\"}"),
            ("x\n-----BEGIN RSA PRIVATE KEY-----\nS", "x\n[redacted]"),
            ("anthropic/claude-sonnet-4", "anthropic/claude-sonnet-4"),
            ("task-force sk-learn", "task-force sk-learn"),
            ("**/*.rs", "**/*.rs"),
            ("C:\\bin\\x", "C:\\bin\\x"),
            ("http://localhost:11434/v1", "http://localhost:11434/v1"),
            ("Reply in  two lines:\n  - a\n", "Reply in  two lines:\n  - a\n"),
            ("Zürich 日本 \u{e9}=\u{e9}", "Zürich 日本 \u{e9}=\u{e9}"),
        ];
        let shown = table.map(|(text, _)| redact_text(text));
        assert_eq!(shown, table.map(|(_, expected)| expected.to_owned()));
    }

    #[test]
    fn names_of_secrets_are_recognised() {
        for name in
            ["apiKey", "api_key", "API-KEY", "x-api-key", "key", "clientSecret", "authToken"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["maxTokens", "max_tokens", "keybinds", "model", "keyboard", "author", "pattern"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
