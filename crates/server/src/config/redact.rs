//! Secrets in a configuration: named to nobody.

use serde_json::Value;

/// What stands in the place of a secret.
const HIDDEN: &str = "[redacted]";

/// Words that make the name of a field that of a secret.
const WORDS: [&str; 9] = [
    "apikey",
    "token",
    "secret",
    "password",
    "passphrase",
    "authorization",
    "credential",
    "privatekey",
    "accesskey",
];

/// Tables whose values are all kept back: nobody knows what people put into them.
const TABLES: [&str; 3] = ["headers", "environment", "env"];

/// Replaces every secret.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if is_secret(key) {
                    hide(value);
                } else if TABLES.contains(&key.to_ascii_lowercase().as_str()) {
                    hide_all(value);
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact),
        Value::String(text) => hide_in_url(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret(key: &str) -> bool {
    let letters = key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    let plain: String = letters.collect();
    plain == "key" || WORDS.iter().any(|word| plain.contains(word)) && !plain.ends_with("tokens")
}

/// Only a text or a number can be a secret; a table is looked into.
fn hide(value: &mut Value) {
    match value {
        Value::String(_) | Value::Number(_) => *value = Value::from(HIDDEN),
        Value::Object(_) | Value::Array(_) => redact(value),
        Value::Null | Value::Bool(_) => {}
    }
}

fn hide_all(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(hide),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            redact(value);
        }
    }
}

/// `https://name:password@host` without name and password.
fn hide_in_url(text: &mut String) {
    let Some(start) = text.find("://").map(|at| at + 3) else { return };
    let rest = text.get(start..).unwrap_or_default();
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if let Some(at) = rest.get(..host_end).and_then(|host| host.rfind('@')) {
        text.replace_range(start..start + at, HIDDEN);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::redact;

    #[test]
    fn no_secret_is_shown_and_nothing_else_is_changed() {
        let mut value = json!({
            "provider": { "p": { "options": { "apiKey": "sk-1", "baseURL": "https://u:pw@host/v1",
                "headers": { "X-Any": "h" }, "maxTokens": 5, "max_tokens": 7 } } },
            "mcp": { "m": { "environment": { "A": "b" }, "oauth": { "clientSecret": "c" },
                "headers": { "Authorization": "Bearer x" }, "url": "https://plain/a@b" } },
            "keybinds": { "leader": "ctrl+x" }, "server": { "password": "p" },
            "permission": { "bash": "ask" }
        });
        redact(&mut value);
        let text = value.to_string();
        for secret in ["sk-1", "u:pw", "\"h\"", "\"b\"", "\"c\"", "Bearer", "\"p\":\"p\""] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(value["provider"]["p"]["options"]["maxTokens"], 5);
        assert_eq!(value["provider"]["p"]["options"]["max_tokens"], 7);
        assert_eq!(value["mcp"]["m"]["url"], "https://plain/a@b");
        assert_eq!(value["keybinds"]["leader"], "ctrl+x");
        assert_eq!(value["permission"]["bash"], "ask");
    }
}
