//! Which rule decides: one function over all sources, and its explanation.
//!
//! The user's own configuration is evaluated first, and its denial is final. Otherwise the last match
//! over all sources decides, in the order of [`RuleSource`]. For an agent that no configuration knows,
//! only an approval allows anything.

use serde::{Deserialize, Serialize};

use super::{PermissionRule, RuleAction, matches_wildcard};

/// What the rules say about a whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionVerdict {
    /// Every pattern is allowed.
    Allowed,
    /// None is denied, but not every one is allowed.
    Ask,
    /// At least one pattern is denied.
    Denied {
        /// The rules about this permission, in order, as reported to the model.
        rules: Vec<PermissionRule>,
    },
}

/// Where rules come from; a later source overrides an earlier one, except that a denial of the user's
/// own configuration is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSource {
    /// The built-in defaults.
    Builtin,
    /// The built-in rules of the agent.
    Agent,
    /// The user's configuration for all agents.
    User,
    /// The project's configuration for all agents.
    Project,
    /// The user's configuration for this agent alone.
    UserForAgent,
    /// The project's configuration for this agent alone.
    ProjectForAgent,
    /// The ruleset stored with the project.
    Stored,
    /// The session.
    Session,
    /// The denials of the parent session, of a child.
    Parent,
    /// The agent is neither built in nor configured: what would be allowed is asked instead.
    UnknownAgent,
    /// Approvals given with "always".
    Approval,
}

impl RuleSource {
    /// Every source, the weakest first.
    pub const ALL: [Self; 11] = [
        Self::Builtin,
        Self::Agent,
        Self::User,
        Self::Project,
        Self::UserForAgent,
        Self::ProjectForAgent,
        Self::Stored,
        Self::Session,
        Self::Parent,
        Self::UnknownAgent,
        Self::Approval,
    ];

    /// Name for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "built-in defaults",
            Self::Agent => "agent",
            Self::User => "user configuration",
            Self::Project => "project configuration",
            Self::UserForAgent => "user configuration of the agent",
            Self::ProjectForAgent => "project configuration of the agent",
            Self::Stored => "stored project rules",
            Self::Session => "session",
            Self::Parent => "parent session",
            Self::UnknownAgent => "unknown agent",
            Self::Approval => "approval",
        }
    }

    /// True for the user's own configuration, whose denial is final.
    #[must_use]
    pub const fn is_of_user(self) -> bool {
        matches!(self, Self::User | Self::UserForAgent)
    }

    /// True for rules about the agent, not about the caller who works with its session.
    #[must_use]
    pub const fn is_about_agent(self) -> bool {
        matches!(
            self,
            Self::Agent | Self::UserForAgent | Self::ProjectForAgent | Self::UnknownAgent
        )
    }
}

/// The rules of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLayer<'a> {
    /// Where they come from.
    pub source: RuleSource,
    /// The rules, in written order.
    pub rules: &'a [PermissionRule],
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleExplanation {
    /// What follows.
    pub action: RuleAction,
    /// The rule that decided; none when nothing matched and a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<PermissionRule>,
    /// Where that rule comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<RuleSource>,
    /// Its place among the rules of its source, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The user's own configuration denies it: no other source and no approval can allow it.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl RuleExplanation {
    fn from_rule(layer: &RuleLayer<'_>, index: usize, rule: &PermissionRule) -> Self {
        Self {
            action: rule.action,
            rule: Some(rule.clone()),
            source: Some(layer.source),
            index: Some(index),
            is_final: layer.source.is_of_user() && rule.action == RuleAction::Deny,
        }
    }
}

/// Finds the rule that decides, of those that `applies` accepts. Every evaluation ends here.
///
/// Without a rule a person is asked.
pub(super) fn find_deciding_rule(
    layers: &[RuleLayer<'_>],
    applies: impl Fn(RuleSource, &PermissionRule) -> bool,
) -> RuleExplanation {
    let (unknown, layers): (Vec<_>, Vec<_>) =
        sort_layers(layers).into_iter().partition(|it| it.source == RuleSource::UnknownAgent);
    let last_match = |layer: &RuleLayer<'_>| {
        let mut rules = layer.rules.iter().enumerate();
        let (index, rule) = rules.rfind(|(_, rule)| applies(layer.source, rule))?;
        Some(RuleExplanation::from_rule(layer, index, rule))
    };
    let is_user = |layer: &&RuleLayer<'_>| layer.source.is_of_user();
    let by_user = layers.iter().rev().filter(is_user).find_map(last_match);
    if let Some(denied) = by_user.filter(|found| found.is_final) {
        return denied;
    }
    let nothing = RuleExplanation {
        action: RuleAction::Ask,
        rule: None,
        source: None,
        index: None,
        is_final: false,
    };
    let found = layers.iter().rev().find_map(last_match).unwrap_or(nothing);
    let is_open = found.action == RuleAction::Allow && found.source != Some(RuleSource::Approval);
    let asked = unknown.iter().find_map(last_match).filter(|_| is_open);
    asked.unwrap_or(found)
}

/// Decides one pattern and names the rule and its source; the layers may come in any order.
#[must_use]
pub fn explain_decision(
    permission: &str,
    pattern: &str,
    layers: &[RuleLayer<'_>],
) -> RuleExplanation {
    find_deciding_rule(layers, |_, rule| {
        matches_wildcard(permission, &rule.permission) && matches_wildcard(pattern, &rule.pattern)
    })
}

/// Judges a request for all of `patterns`: every one is looked at before anybody is asked.
///
/// A request without patterns is judged as one for anything (`*`), so that it cannot pass rules it
/// does not name; OpenCode lets it pass.
#[must_use]
pub fn decide_request(
    permission: &str,
    patterns: &[String],
    layers: &[RuleLayer<'_>],
) -> PermissionVerdict {
    let anything = ["*".to_owned()];
    let patterns = if patterns.is_empty() { &anything } else { patterns };
    let mut verdict = PermissionVerdict::Allowed;
    for pattern in patterns {
        match explain_decision(permission, pattern, layers).action {
            RuleAction::Allow => {}
            RuleAction::Ask => verdict = PermissionVerdict::Ask,
            RuleAction::Deny => {
                return PermissionVerdict::Denied { rules: rules_about(permission, layers) };
            }
        }
    }
    verdict
}

fn rules_about(permission: &str, layers: &[RuleLayer<'_>]) -> Vec<PermissionRule> {
    let layers = sort_layers(layers);
    let rules = layers.iter().flat_map(|layer| layer.rules.iter());
    rules.filter(|rule| matches_wildcard(permission, &rule.permission)).cloned().collect()
}

/// The tools a model is not even shown: the last rule about them denies everything, of the user's own
/// or of all.
#[must_use]
pub fn list_hidden_tools<'t>(tools: &[&'t str], layers: &[RuleLayer<'_>]) -> Vec<&'t str> {
    let layers = sort_layers(layers);
    let denies_all = |permission: &str, only_user: bool| {
        let layers = layers.iter().rev().filter(|it| !only_user || it.source.is_of_user());
        let layers = layers.filter(|it| it.source != RuleSource::UnknownAgent);
        let mut rules = layers.flat_map(|layer| layer.rules.iter().rev());
        let last = rules.find(|rule| matches_wildcard(permission, &rule.permission));
        last.is_some_and(|rule| rule.pattern == "*" && rule.action == RuleAction::Deny)
    };
    let hidden = |tool: &str| {
        let permission = permission_of_tool(tool);
        denies_all(permission, true) || denies_all(permission, false)
    };
    tools.iter().copied().filter(|tool| hidden(tool)).collect()
}

/// The permission a tool asks for; most ask for their own name.
#[must_use]
pub fn permission_of_tool(tool: &str) -> &str {
    match tool {
        "edit" | "write" | "apply_patch" | "patch" | "multiedit" => "edit",
        "list_mcp_resources" | "list_mcp_resource_templates" | "read_mcp_resource" => "read",
        other => other,
    }
}

/// Brings layers into the order of [`RuleSource`]; layers of one source keep theirs.
#[must_use]
pub fn sort_layers<'a>(layers: &[RuleLayer<'a>]) -> Vec<RuleLayer<'a>> {
    let mut layers = layers.to_vec();
    layers.sort_by_key(|layer| layer.source);
    layers
}

/// What each layer alone decides about a pattern: its own last match, weakest source first. The last of
/// them decides, unless one of them is final.
#[must_use]
pub fn explain_each_layer(
    permission: &str,
    pattern: &str,
    layers: &[RuleLayer<'_>],
) -> Vec<RuleExplanation> {
    let alone =
        |layer: &RuleLayer<'_>| explain_decision(permission, pattern, std::slice::from_ref(layer));
    sort_layers(layers).iter().map(alone).filter(|explanation| explanation.rule.is_some()).collect()
}

/// The rules a child session inherits: the denials of its parent.
///
/// Rules about directories outside the worktree are always inherited, as in OpenCode:
/// without them a child would ask again for what its parent was granted.
#[must_use]
pub fn inherited_rules(parent: &[PermissionRule]) -> Vec<PermissionRule> {
    let keep = |rule: &&PermissionRule| {
        rule.action == RuleAction::Deny || rule.permission == "external_directory"
    };
    parent.iter().filter(keep).cloned().collect()
}
