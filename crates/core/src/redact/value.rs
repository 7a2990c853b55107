//! Secrets in a JSON value: hidden by the names of fields and flags, and by what keys and texts look like.

use serde_json::{Map, Value};

use super::REDACTED;
use super::name::is_secret_name;
use super::text::{is_password_like, is_wildcard, redact_prose, redact_text};

/// Tables whose values are all hidden, because people put anything into them.
const HIDDEN_TABLES: [&str; 3] = ["headers", "environment", "env"];

/// Fields with sentences for people or models.
const PROSE_FIELDS: [&str; 4] = ["prompt", "system", "description", "template"];

/// Tables whose keys are names that people chose: an agent called `auth` is no secret.
const NAMED_TABLES: [&str; 9] =
    ["agent", "mode", "command", "mcp", "provider", "models", "variants", "formatter", "lsp"];

/// Values of permission rules: the pattern `*token*` is no secret's name.
const ACTIONS: [&str; 3] = ["allow", "ask", "deny"];

/// Hides every secret that can be recognised, keys included. No entry is lost.
pub fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => redact_table(map, false),
        Value::Array(list) => redact_list(list),
        Value::String(text) => *text = redact_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_table(map: &mut Map<String, Value>, has_chosen_names: bool) {
    redact_keys(map);
    for (key, value) in map.iter_mut() {
        let is_prose = PROSE_FIELDS.contains(&key.as_str());
        let is_table_of_names = NAMED_TABLES.contains(&key.as_str());
        if is_prose && let Value::String(text) = &mut *value {
            *text = redact_prose(text);
        } else if (is_table_of_names || has_chosen_names)
            && let Value::Object(inner) = &mut *value
        {
            redact_table(inner, is_table_of_names);
        } else if is_hidden_table(key)
            && let Value::Array(list) = &mut *value
        {
            list.iter_mut().for_each(hide_variable);
        } else if is_secret_name(key) || is_hidden_table(key) {
            hide_all(value);
        } else {
            redact(value);
        }
    }
}

/// Hides an entry of a list of variables, unless it is a name alone.
fn hide_variable(value: &mut Value) {
    let is_name = |text: &str| {
        let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        text.contains('_') && text.chars().all(is_part) && redact_text(text) == text
    };
    match value.as_str() {
        Some(name) if is_name(name) => {}
        _ => hide_all(value),
    }
}

fn is_hidden_table(key: &str) -> bool {
    HIDDEN_TABLES.contains(&key.to_ascii_lowercase().as_str())
}

/// Redacts the keys of a table; keys that become the same are numbered.
fn redact_keys(map: &mut Map<String, Value>) {
    if map.keys().all(|key| redact_text(key) == *key) {
        return;
    }
    let mut shown = Map::new();
    for (key, value) in std::mem::take(map) {
        let plain = redact_text(&key);
        let mut unique = plain.clone();
        let mut number = 2;
        while shown.contains_key(&unique) {
            unique = format!("{plain} ({number})");
            number += 1;
        }
        shown.insert(unique, value);
    }
    *map = shown;
}

/// How the entry after another one in a list is treated.
enum Next {
    Plain,
    Secret,
    Login,
    Header,
    Password,
}

/// A list may be a command: the value of a flag is the entry after it.
fn redact_list(list: &mut [Value]) {
    let mut next = Next::Plain;
    for value in list {
        let text = value.as_str().unwrap_or_default();
        let is_flag = text.starts_with("--") || text.starts_with('-') && text.len() == 2;
        let is_secret = !is_flag
            && match next {
                Next::Plain => false,
                Next::Secret => !is_wildcard(text),
                Next::Login => text.contains(':'),
                Next::Header => false,
                Next::Password => is_password_like(text),
            };
        let is_header = !is_flag && matches!(next, Next::Header);
        next = if is_flag { after_flag(text) } else { Next::Plain };
        if is_secret {
            hide_all(value);
        } else if is_header {
            *value = Value::from(redact_header(text));
        } else if let Some((name, _)) =
            text.split_once('=').filter(|(name, _)| is_secret_name(name))
        {
            // The whole entry is one argument, so spaces belong to its value.
            *value = Value::from(format!("{}={REDACTED}", redact_text(name)));
        } else {
            redact(value);
        }
    }
}

fn after_flag(flag: &str) -> Next {
    match flag.trim_start_matches('-') {
        "H" | "header" | "headers" => Next::Header,
        "u" | "user" => Next::Login,
        "p" => Next::Password,
        name if !name.contains('=') && is_secret_name(name) => Next::Secret,
        _ => Next::Plain,
    }
}

/// `Name: value` without the value.
fn redact_header(text: &str) -> String {
    match text.split_once(':') {
        Some((name, _)) => format!("{}: {REDACTED}", redact_text(name)),
        None => redact_text(text),
    }
}

/// Hides every text and number, however deep; keys only if they contain a secret.
fn hide_all(value: &mut Value) {
    match value {
        Value::String(text) if ACTIONS.contains(&text.as_str()) => {}
        Value::String(_) | Value::Number(_) => *value = Value::from(REDACTED),
        Value::Object(map) => {
            redact_keys(map);
            map.values_mut().for_each(hide_all);
        }
        Value::Array(list) => list.iter_mut().for_each(hide_all),
        Value::Null | Value::Bool(_) => {}
    }
}
