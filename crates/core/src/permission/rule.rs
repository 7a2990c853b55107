//! One rule and what it may decide.

use serde::{Deserialize, Serialize};

use crate::model::ExtraFields;

/// One rule; in a list, the last that matches wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRule {
    /// Which permission, with wildcards.
    pub permission: String,
    /// What for, with wildcards.
    pub pattern: String,
    /// What follows.
    pub action: RuleAction,
    /// Fields this version does not know; they decide nothing.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Go ahead.
    Allow,
    /// Never.
    Deny,
    /// Ask a person.
    Ask,
}

impl PermissionRule {
    /// A rule of these words.
    #[must_use]
    pub fn new(permission: &str, pattern: &str, action: RuleAction) -> Self {
        let (permission, pattern) = (permission.to_owned(), pattern.to_owned());
        Self { permission, pattern, action, extra: ExtraFields::new() }
    }
}

impl RuleAction {
    /// The word configuration and wire use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }

    /// The action with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Deny, Self::Ask].into_iter().find(|action| action.as_str() == word)
    }
}
