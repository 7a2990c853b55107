//! Configuration files with permission rules, read as leniently as OpenCode writes them: comments
//! and commas at the end of a list are allowed. What is left must be JSON.

use serde_json::{Map, Value};

use super::rule::{PermissionRule, RuleAction};
use super::rule_config::{RuleConfigError, parse_rule_config};
use crate::jsonc::strip_comments;

/// A configuration file, as far as it is about permissions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PermissionFile {
    settings: Map<String, Value>,
}

/// What a configuration file sets for one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTable {
    /// Whether the agent is switched off; none if the file does not say.
    pub is_disabled: Option<bool>,
    /// The rules for it alone, in written order.
    pub rules: Vec<PermissionRule>,
}

impl PermissionFile {
    /// Reads a whole file; an empty one has no settings.
    ///
    /// # Errors
    ///
    /// [`RuleConfigError`]: a file that cannot be read may hold a denial, so it is not taken for an empty one.
    pub fn parse(text: &str) -> Result<Self, RuleConfigError> {
        let plain = strip_comments(text);
        if plain.trim().is_empty() {
            return Ok(Self::default());
        }
        let not_json = |why: String| RuleConfigError::NotJson { why };
        match serde_json::from_str(&plain).map_err(|error| not_json(error.to_string()))? {
            Value::Object(settings) => Ok(Self { settings }),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(not_json("it is no table of settings".to_owned())),
        }
    }

    /// The rules for all agents: the setting `permission`.
    ///
    /// # Errors
    ///
    /// [`RuleConfigError`] if the setting is not understood.
    pub fn shared_rules(&self, home: &str) -> Result<Vec<PermissionRule>, RuleConfigError> {
        match self.settings.get("permission") {
            Some(setting) => parse_rule_config(setting, home),
            None => Ok(Vec::new()),
        }
    }

    /// What the file sets for one agent, in `agent` and in the older `mode`; none if it does not name it.
    ///
    /// # Errors
    ///
    /// [`RuleConfigError`] if that is not understood.
    pub fn agent(&self, name: &str, home: &str) -> Result<Option<AgentTable>, RuleConfigError> {
        let mut found: Option<AgentTable> = None;
        for key in ["mode", "agent"] {
            let fields = match self.settings.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::Object(table)) => table.get(name),
                Some(_) => return Err(RuleConfigError::NotATable { at: key.to_owned() }),
            };
            let fields = match fields {
                None => continue,
                Some(Value::Object(fields)) => fields,
                Some(_) => {
                    return Err(RuleConfigError::NotATable { at: format!("{key}.{name}") });
                }
            };
            let table = found.get_or_insert_default();
            table.is_disabled =
                fields.get("disable").map(|it| it == &Value::Bool(true)).or(table.is_disabled);
            table.rules.extend(parse_agent_rules(fields, home)?);
        }
        Ok(found)
    }

    /// The agent that answers if no other is named.
    #[must_use]
    pub fn default_agent(&self) -> Option<&str> {
        self.settings.get("default_agent")?.as_str()
    }
}

/// The rules in the fields of one agent: its older table `tools`, then its `permission`.
///
/// # Errors
///
/// [`RuleConfigError`] if `permission` is not understood.
pub fn parse_agent_rules(
    fields: &Map<String, Value>,
    home: &str,
) -> Result<Vec<PermissionRule>, RuleConfigError> {
    let rule = |(tool, is_on): (&String, &Value)| {
        // What does not clearly say "on" is off.
        let action =
            if is_on.as_bool() == Some(true) { RuleAction::Allow } else { RuleAction::Deny };
        let permission = match tool.as_str() {
            "write" | "edit" | "patch" | "multiedit" | "apply_patch" => "edit",
            other => other,
        };
        PermissionRule::new(permission, "*", action)
    };
    let tools = fields.get("tools").and_then(Value::as_object);
    let mut rules: Vec<PermissionRule> = tools.into_iter().flatten().map(rule).collect();
    if let Some(setting) = fields.get("permission") {
        rules.extend(parse_rule_config(setting, home)?);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, &'static str)> {
        let file = PermissionFile::parse(text).expect("a good file");
        let rules = file.shared_rules("/home/user").expect("good rules");
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
            let read = PermissionFile::parse(text).and_then(|file| file.shared_rules("/"));
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }

    /// Proves R38.
    #[test]
    fn agent_rules_come_from_both_tables_and_its_tools() {
        let text = r#"{
            "default_agent": "plan",
            "mode": {"build": {"permission": {"edit": "deny"}, "disable": true}},
            "agent": {"build": {"tools": {"write": false, "bash": true}, "disable": false},
                      "docs": {"permission": "ask"}},
        }"#;
        let file = PermissionFile::parse(text).expect("a good file");
        let build = file.agent("build", "/").expect("good rules").expect("named");
        let row = |it: &PermissionRule| (it.permission.clone(), it.action.as_str());
        assert_eq!(
            build.rules.iter().map(row).collect::<Vec<_>>(),
            [("edit", "deny"), ("edit", "deny"), ("bash", "allow")]
                .map(|(permission, action)| (permission.to_owned(), action))
        );
        assert_eq!(build.is_disabled, Some(false));
        assert_eq!(file.agent("docs", "/").expect("good rules").map(|it| it.rules.len()), Some(1));
        assert_eq!(file.agent("other", "/"), Ok(None));
        assert_eq!(file.default_agent(), Some("plan"));
        for wrong in [r#"{"agent": []}"#, r#"{"agent": {"build": 1}}"#] {
            let read = PermissionFile::parse(wrong).and_then(|file| file.agent("build", "/"));
            assert!(matches!(read, Err(RuleConfigError::NotATable { .. })), "{wrong}: {read:?}");
        }
    }
}
