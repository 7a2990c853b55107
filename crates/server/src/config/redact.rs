//! Secrets in a configuration: hidden by the name of their field and by what they look like.

use serde_json::Value;

use super::secret_text::{HIDDEN, is_secret_name, redact_text};

/// Tables whose values are all kept back: nobody knows what people put into them.
const TABLES: [&str; 3] = ["headers", "environment", "env"];

/// Replaces every secret.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if is_secret_name(key) || TABLES.contains(&key.to_ascii_lowercase().as_str()) {
                    hide_all(value);
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(list) => redact_list(list),
        Value::String(text) => *text = redact_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A list may be a command: the value of a flag is the entry after it.
fn redact_list(list: &mut [Value]) {
    let mut is_secret = false;
    for value in list {
        let text = value.as_str().unwrap_or_default();
        let flag = text.starts_with('-').then(|| text.trim_start_matches('-'));
        if is_secret && flag.is_none() {
            hide_all(value);
            is_secret = false;
            continue;
        }
        is_secret = flag.is_some_and(|name| is_secret_name(name) || matches!(name, "u" | "user"));
        redact(value);
    }
}

/// Hides every text and number, however deep.
fn hide_all(value: &mut Value) {
    match value {
        Value::String(_) | Value::Number(_) => *value = Value::from(HIDDEN),
        Value::Object(map) => map.values_mut().for_each(hide_all),
        Value::Array(list) => list.iter_mut().for_each(hide_all),
        Value::Null | Value::Bool(_) => {}
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

    #[test]
    fn secrets_are_hidden_in_commands_lists_and_nested_tables() {
        let mut value = json!({
            "command": ["npx", "-y", "server", "--api-key=S1", "--token", "S2", "--port", "80",
                "-H", "X-Api-Key: S3", "--header", "Authorization: Bearer S4", "--verbose",
                "API_TOKEN=S5", "--config={\"apiKey\":\"S6\"}", "-u", "ada:S7", "bearer S8"],
            "apiKeys": ["S9", { "any": "S10" }],
            "credentials": { "name": "S11", "id": 12 },
            "env": { "nested": { "deep": ["S12"] } },
            "plain": ["--keyboard", "dvorak", "--tokens", "5"],
        });
        redact(&mut value);
        let text = value.to_string();
        let leaked: Vec<String> =
            (1..=12).map(|n| format!("S{n}")).filter(|secret| text.contains(secret)).collect();
        assert!(leaked.is_empty(), "{leaked:?} in {text}");
        let command = value["command"].as_array().expect("a list");
        let kept = [
            (0, "npx"),
            (1, "-y"),
            (2, "server"),
            (3, "--api-key=[redacted]"),
            (4, "--token"),
            (5, "[redacted]"),
            (6, "--port"),
            (7, "80"),
            (12, "--verbose"),
        ];
        for (index, word) in kept {
            assert_eq!(command[index], word);
        }
        assert_eq!(value["plain"], json!(["--keyboard", "dvorak", "--tokens", "5"]));
    }
}
