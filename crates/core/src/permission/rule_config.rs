//! Permission rules as people write them in configuration.

use serde_json::Value;

use super::{PermissionRule, RuleAction};
use crate::redact::redact_text;

/// Why a `permission` setting could not be read; no rule of it is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleConfigError {
    /// Neither an action nor a table of them.
    #[error("permission{} must be an action or a table of actions", redact_text(at))]
    WrongShape {
        /// Where in the setting, as `.key.key`.
        at: String,
    },
    /// A file that is not JSON.
    #[error("invalid JSON: {why}")]
    NotJson {
        /// What is wrong.
        why: String,
    },
    /// An agent, or the list of them, that is no table.
    #[error("{} must be a table", redact_text(at))]
    NotATable {
        /// Where in the file.
        at: String,
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
/// The written order is kept, because the last match wins. `~`, `~/` and `$HOME` at the start
/// of a pattern become `home`; unlike OpenCode, a longer variable such as `$HOMEDIR` does not.
///
/// # Errors
///
/// [`RuleConfigError`] for anything else: a rule that is not understood must not be skipped.
pub fn parse_rule_config(
    setting: &Value,
    home: &str,
) -> Result<Vec<PermissionRule>, RuleConfigError> {
    let permissions = match setting {
        Value::String(word) => {
            return Ok(vec![PermissionRule::new("*", "*", parse_action("", word)?)]);
        }
        Value::Object(permissions) => permissions,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(RuleConfigError::WrongShape { at: String::new() });
        }
    };
    let mut rules = Vec::new();
    for (permission, value) in permissions {
        let at = format!(".{permission}");
        if let Value::String(word) = value {
            rules.push(PermissionRule::new(permission, "*", parse_action(&at, word)?));
            continue;
        }
        let Value::Object(patterns) = value else {
            return Err(RuleConfigError::WrongShape { at });
        };
        for (pattern, value) in patterns {
            let at = format!("{at}.{pattern}");
            let Value::String(word) = value else {
                return Err(RuleConfigError::WrongShape { at });
            };
            rules.push(PermissionRule::new(
                permission,
                &expand_home(pattern, home),
                parse_action(&at, word)?,
            ));
        }
    }
    Ok(rules)
}

/// A wrong word as a message shows it: only what may be a misspelt action is quoted.
fn quoted(word: &str) -> String {
    let is_plain = word.len() <= 10 && word.chars().all(|c| c.is_ascii_lowercase());
    if is_plain { format!("{word:?}") } else { "no action".to_owned() }
}

fn parse_action(at: &str, word: &str) -> Result<RuleAction, RuleConfigError> {
    RuleAction::parse(word)
        .ok_or_else(|| RuleConfigError::UnknownAction { at: at.to_owned(), word: word.to_owned() })
}

fn expand_home(pattern: &str, home: &str) -> String {
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
    use crate::permission::{RuleLayer, RuleSource, explain_decision};

    fn rules(setting: &Value) -> Vec<(String, String, &'static str)> {
        let rules = parse_rule_config(setting, "/home/user").expect("a good setting");
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
    fn single_action_applies_to_everything() {
        assert_eq!(rules(&json!("ask")), [row("*", "*", "ask")]);
        assert_eq!(rules(&json!({ "bash": "allow" })), [row("bash", "*", "allow")]);
        assert_eq!(rules(&json!({})), []);
    }

    #[test]
    fn table_entries_keep_written_order() {
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
    fn key_order_decides() {
        let verdict = |setting: Value| {
            let rules = parse_rule_config(&setting, "/home/user").expect("a good setting");
            let layers = [RuleLayer { source: RuleSource::User, rules: &rules }];
            explain_decision("bash", "ls", &layers).action
        };
        assert_eq!(verdict(json!({ "*": "deny", "bash": "allow" })), RuleAction::Allow);
        assert_eq!(verdict(json!({ "bash": "allow", "*": "deny" })), RuleAction::Deny);
    }

    #[test]
    fn home_is_expanded_at_start_only() {
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
    fn invalid_rule_is_rejected_with_its_path() {
        let refused = |setting: Value| {
            parse_rule_config(&setting, "/home/user").expect_err("a bad setting").to_string()
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
