//! Permission rules as people write them in configuration.

use serde_json::Value;

use super::{Action, Rule};
use crate::redact::redact_text;

/// Why a `permission` setting could not be read; no rule of it is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Neither an action nor a table of them.
    #[error("permission{} must be an action or a table of actions", redact_text(at))]
    WrongShape {
        /// Where in the setting, as `.key.key`.
        at: String,
    },
    /// A file that is not JSON.
    #[error("it is not JSON: {why}")]
    NotJson {
        /// What is wrong.
        why: String,
    },
    /// A word that is no action.
    #[error("permission{} is {}; use allow, deny or ask", redact_text(at), quoted(word))]
    UnknownAction {
        /// Where in the setting, as `.key.key`.
        at: String,
        /// The word.
        word: String,
    },
}

/// Reads a `permission` setting: one action for everything, or per permission an action or a table
/// of patterns.
///
/// The written order is kept, because the last match wins. `~`, `~/` and `$HOME` at the beginning
/// of a pattern become `home`; unlike OpenCode, a longer variable such as `$HOMEDIR` does not.
///
/// # Errors
///
/// [`ConfigError`] for anything else: a rule that is not understood must not be skipped.
pub fn from_config(setting: &Value, home: &str) -> Result<Vec<Rule>, ConfigError> {
    let permissions = match setting {
        Value::String(word) => return Ok(vec![Rule::new("*", "*", action("", word)?)]),
        Value::Object(permissions) => permissions,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(ConfigError::WrongShape { at: String::new() });
        }
    };
    let mut rules = Vec::new();
    for (permission, value) in permissions {
        let at = format!(".{permission}");
        if let Value::String(word) = value {
            rules.push(Rule::new(permission, "*", action(&at, word)?));
            continue;
        }
        let Value::Object(patterns) = value else {
            return Err(ConfigError::WrongShape { at });
        };
        for (pattern, value) in patterns {
            let at = format!("{at}.{pattern}");
            let Value::String(word) = value else {
                return Err(ConfigError::WrongShape { at });
            };
            rules.push(Rule::new(permission, &expand(pattern, home), action(&at, word)?));
        }
    }
    Ok(rules)
}

/// A wrong word as a message shows it: only what may be a misspelt action is quoted.
fn quoted(word: &str) -> String {
    let is_plain = word.len() <= 10 && word.chars().all(|c| c.is_ascii_lowercase());
    if is_plain { format!("{word:?}") } else { "no action".to_owned() }
}

fn action(at: &str, word: &str) -> Result<Action, ConfigError> {
    Action::parse(word)
        .ok_or_else(|| ConfigError::UnknownAction { at: at.to_owned(), word: word.to_owned() })
}

fn expand(pattern: &str, home: &str) -> String {
    let rest = match (pattern.strip_prefix('~'), pattern.strip_prefix("$HOME")) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => rest,
        (_, Some(rest)) if !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
            rest
        }
        _ => return pattern.to_owned(),
    };
    format!("{home}{rest}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::permission::{Layer, Source, explain};

    fn rules(setting: &Value) -> Vec<(String, String, &'static str)> {
        let rules = from_config(setting, "/home/user").expect("a good setting");
        rules.into_iter().map(|r| (r.permission, r.pattern, r.action.as_str())).collect()
    }

    fn row(
        permission: &str,
        pattern: &str,
        action: &'static str,
    ) -> (String, String, &'static str) {
        (permission.to_owned(), pattern.to_owned(), action)
    }

    #[test]
    fn section_9_1_a_single_word_is_a_rule_for_everything() {
        assert_eq!(rules(&json!("ask")), [row("*", "*", "ask")]);
        assert_eq!(rules(&json!({ "bash": "allow" })), [row("bash", "*", "allow")]);
        assert_eq!(rules(&json!({})), []);
    }

    #[test]
    fn section_9_1_a_table_gives_one_rule_per_entry_in_written_order() {
        let setting = json!({
            "bash": { "*": "deny", "git *": "allow", "git push *": "ask" },
            "edit": "allow",
            "*": "ask",
        });
        assert_eq!(
            rules(&setting),
            [
                row("bash", "*", "deny"),
                row("bash", "git *", "allow"),
                row("bash", "git push *", "ask"),
                row("edit", "*", "allow"),
                row("*", "*", "ask"),
            ]
        );
    }

    #[test]
    fn section_9_1_key_order_is_significant() {
        let verdict = |setting: Value| {
            let rules = from_config(&setting, "/home/user").expect("a good setting");
            let layers = [Layer { source: Source::User, rules: &rules }];
            explain("bash", "ls", &layers).action
        };
        assert_eq!(verdict(json!({ "*": "deny", "bash": "allow" })), Action::Allow);
        assert_eq!(verdict(json!({ "bash": "allow", "*": "deny" })), Action::Deny);
    }

    #[test]
    fn section_9_1_home_is_expanded_at_the_beginning_only() {
        for (written, expected) in [
            ("~", "/home/user"),
            ("~/projects/*", "/home/user/projects/*"),
            ("$HOME", "/home/user"),
            ("$HOME/projects/*", "/home/user/projects/*"),
            ("$HOME*", "/home/user*"),
            ("$HOMEDIR/x", "$HOMEDIR/x"),
            ("~other/x", "~other/x"),
            ("/some/~/path", "/some/~/path"),
            ("/some/$HOME", "/some/$HOME"),
        ] {
            let setting = json!({ "external_directory": { written: "allow" } });
            assert_eq!(rules(&setting), [row("external_directory", expected, "allow")]);
        }
    }

    #[test]
    fn a_rule_that_is_not_understood_is_refused_with_its_place() {
        let refused = |setting: Value| {
            from_config(&setting, "/home/user").expect_err("a bad setting").to_string()
        };
        assert_eq!(
            refused(json!({ "bash": { "rm *": "never" } })),
            "permission.bash.rm * is \"never\"; use allow, deny or ask"
        );
        // A value in the wrong place may be a secret.
        assert_eq!(
            refused(json!({ "bash": { "curl -u ada:pw9 *": "hunter2" } })),
            "permission.bash.curl -u [redacted] * is no action; use allow, deny or ask"
        );
        assert_eq!(
            refused(json!({ "bash": true })),
            "permission.bash must be an action or a table of actions"
        );
        assert_eq!(refused(json!([])), "permission must be an action or a table of actions");
    }
}
