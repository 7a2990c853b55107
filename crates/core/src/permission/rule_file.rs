//! Configuration files with permission rules, read as leniently as OpenCode writes them: comments
//! and commas at the end of a list are allowed. What is left must be JSON.

use serde_json::Value;

use super::rule::PermissionRule;
use super::rule_config::{RuleConfigError, parse_rule_config};

/// Reads the `permission` setting of a whole configuration file; no such setting, no rules.
///
/// # Errors
///
/// [`RuleConfigError`]: a file that cannot be read may hold a denial, so it is not taken for an empty one.
pub fn parse_rule_file(text: &str, home: &str) -> Result<Vec<PermissionRule>, RuleConfigError> {
    let plain = strip_comments(text);
    if plain.trim().is_empty() {
        return Ok(Vec::new());
    }
    let not_json = |why: String| RuleConfigError::NotJson { why };
    let file: Value = serde_json::from_str(&plain).map_err(|error| not_json(error.to_string()))?;
    match &file {
        Value::Object(settings) => match settings.get("permission") {
            Some(setting) => parse_rule_config(setting, home),
            None => Ok(Vec::new()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(not_json("it is no table of settings".to_owned()))
        }
    }
}

/// Blanks comments and commas before a closing bracket; places in the text stay what they are.
fn strip_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Where a comma is that nothing has followed yet.
    let mut comma: Option<usize> = None;
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            // One that does not end is no comment, and no JSON either.
            '/' if rest.starts_with("/*") => match rest.get(2..).and_then(|it| it.find("*/")) {
                Some(end) => end + 4,
                None => return text.to_owned(),
            },
            _ => next.len_utf8(),
        };
        let (piece, after) = rest.split_at(taken);
        rest = after;
        if piece.starts_with("//") || piece.starts_with("/*") {
            plain.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
            continue;
        }
        match next {
            // A list does not begin with one.
            ',' if !plain.trim_end().ends_with(['{', '[', ',']) => comma = Some(plain.len()),
            ']' | '}' => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
            }
            next if !next.is_whitespace() => comma = None,
            _ => {}
        }
        plain.push_str(piece);
    }
    plain
}

/// The length of the string a text begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, &'static str)> {
        let rules = parse_rule_file(text, "/home/user").expect("a good file");
        rules.into_iter().map(|r| (r.permission, r.pattern, r.action.as_str())).collect()
    }

    /// Proves R38.
    #[test]
    fn comments_and_trailing_commas_are_ignored() {
        let text = r#"{
            // what tools may do
            "permission": { /* all of it */
                "bash": { "echo //*,}": "deny", "a \" // b": "ask", },
                "edit": "allow",
            },
        }"#;
        let row = |permission: &str, pattern: &str, action| {
            (permission.to_owned(), pattern.to_owned(), action)
        };
        assert_eq!(
            read(text),
            [
                row("bash", "echo //*,}", "deny"),
                row("bash", "a \" // b", "ask"),
                row("edit", "*", "allow")
            ]
        );
        assert_eq!(read(r#"{"model": "x"}"#), []);
        assert_eq!(read(" // nothing\n"), []);
    }

    /// Proves R38.
    #[test]
    fn invalid_rule_file_is_an_error() {
        for text in ["{", "[]", "{\"permission\": 3}", "{\"permission\": {,}}", "/* \"a\""] {
            let read = parse_rule_file(text, "/");
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }
}
