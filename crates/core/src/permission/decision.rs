//! Which rule decides: evaluation, the order of sources and its explanation.

use serde::{Deserialize, Serialize};

use super::{Action, Rule, matches};

/// What the rules say about one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What follows.
    pub action: Action,
    /// The rule that decided; none when nothing matched.
    pub rule: Option<RuleIndex>,
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleIndex {
    /// The ruleset, counted from 0.
    pub ruleset: usize,
    /// The rule in it, counted from 0.
    pub rule: usize,
}

/// What the rules say about a whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every pattern is allowed.
    Allowed,
    /// None is denied, but not every one is allowed.
    Ask,
    /// At least one pattern is denied.
    Denied {
        /// The rules about this permission, in order: what a model is told.
        rules: Vec<Rule>,
    },
}

/// Where rules come from; a later source has the last word (R38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The built-in defaults.
    Builtin,
    /// The agent.
    Agent,
    /// The user's configuration.
    User,
    /// The project's configuration.
    Project,
    /// The ruleset stored with the project.
    Stored,
    /// The session.
    Session,
    /// The denials of the parent session, of a child.
    Parent,
    /// What somebody approved with "always".
    Approval,
}

impl Source {
    /// Every source, the weakest first.
    pub const ALL: [Self; 8] = [
        Self::Builtin,
        Self::Agent,
        Self::User,
        Self::Project,
        Self::Stored,
        Self::Session,
        Self::Parent,
        Self::Approval,
    ];

    /// What people are told.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "built-in defaults",
            Self::Agent => "agent",
            Self::User => "user configuration",
            Self::Project => "project configuration",
            Self::Stored => "stored project rules",
            Self::Session => "session",
            Self::Parent => "parent session",
            Self::Approval => "approval",
        }
    }
}

/// The rules of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer<'a> {
    /// Where they come from.
    pub source: Source,
    /// The rules, in written order.
    pub rules: &'a [Rule],
}

/// A decision with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What follows.
    pub action: Action,
    /// The rule that decided; none when nothing matched and a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Where that rule comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Its place among the rules of its source, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
}

/// Finds the last rule that matches, over all rulesets in order; without one a person is asked.
#[must_use]
pub fn evaluate(permission: &str, pattern: &str, rulesets: &[&[Rule]]) -> Decision {
    let hit =
        |rule: &Rule| matches(permission, &rule.permission) && matches(pattern, &rule.pattern);
    for (ruleset, rules) in rulesets.iter().enumerate().rev() {
        if let Some((rule, found)) = rules.iter().enumerate().rfind(|(_, rule)| hit(rule)) {
            return Decision { action: found.action, rule: Some(RuleIndex { ruleset, rule }) };
        }
    }
    Decision { action: Action::Ask, rule: None }
}

/// Judges a request for all of `patterns`: every one is looked at before anybody is asked.
///
/// A request without patterns is judged as one for anything (`*`), so that it cannot pass rules it
/// does not name; OpenCode lets it pass.
#[must_use]
pub fn decide(permission: &str, patterns: &[String], rulesets: &[&[Rule]]) -> Verdict {
    let anything = ["*".to_owned()];
    let patterns = if patterns.is_empty() { &anything } else { patterns };
    let mut verdict = Verdict::Allowed;
    for pattern in patterns {
        match evaluate(permission, pattern, rulesets).action {
            Action::Allow => {}
            Action::Ask => verdict = Verdict::Ask,
            Action::Deny => {
                return Verdict::Denied { rules: relevant(permission, rulesets) };
            }
        }
    }
    verdict
}

fn relevant(permission: &str, rulesets: &[&[Rule]]) -> Vec<Rule> {
    let rules = rulesets.iter().flat_map(|rules| rules.iter());
    rules.filter(|rule| matches(permission, &rule.permission)).cloned().collect()
}

/// The tools a model is not even shown: the last rule about them denies everything.
#[must_use]
pub fn disabled<'t>(tools: &[&'t str], rulesets: &[&[Rule]]) -> Vec<&'t str> {
    let hidden = |tool: &str| {
        let permission = permission_of(tool);
        let mut rules = rulesets.iter().rev().flat_map(|rules| rules.iter().rev());
        rules
            .find(|rule| matches(permission, &rule.permission))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    };
    tools.iter().copied().filter(|tool| hidden(tool)).collect()
}

/// The permission a tool asks for; most ask for their own name.
fn permission_of(tool: &str) -> &str {
    match tool {
        "edit" | "write" | "apply_patch" | "patch" | "multiedit" => "edit",
        "list_mcp_resources" | "list_mcp_resource_templates" | "read_mcp_resource" => "read",
        other => other,
    }
}

/// Brings layers into the order of R38; layers of one source keep theirs.
#[must_use]
pub fn ordered<'a>(layers: &[Layer<'a>]) -> Vec<Layer<'a>> {
    let mut layers = layers.to_vec();
    layers.sort_by_key(|layer| layer.source);
    layers
}

/// Decides one pattern and names the rule and its source; the layers may come in any order.
#[must_use]
pub fn explain(permission: &str, pattern: &str, layers: &[Layer<'_>]) -> Explanation {
    let layers = ordered(layers);
    let rulesets: Vec<&[Rule]> = layers.iter().map(|layer| layer.rules).collect();
    let decision = evaluate(permission, pattern, &rulesets);
    let found = decision.rule.and_then(|at| {
        let layer = layers.get(at.ruleset)?;
        Some((layer.rules.get(at.rule)?.clone(), layer.source, at.rule))
    });
    let (rule, source, index) = match found {
        Some((rule, source, index)) => (Some(rule), Some(source), Some(index)),
        None => (None, None, None),
    };
    Explanation { action: decision.action, rule, source, index }
}

/// What each layer alone says of a pattern: its own last match, weakest source first. The last of
/// them decides.
#[must_use]
pub fn explain_layers(permission: &str, pattern: &str, layers: &[Layer<'_>]) -> Vec<Explanation> {
    let alone = |layer: &Layer<'_>| explain(permission, pattern, std::slice::from_ref(layer));
    ordered(layers).iter().map(alone).filter(|told| told.rule.is_some()).collect()
}

/// The rules a child session takes over from its parent's: what the parent may not do either.
///
/// Rules about directories outside the worktree are inherited whatever they say, as in OpenCode:
/// without them a child would ask again for what its parent was granted.
#[must_use]
pub fn inherited(parent: &[Rule]) -> Vec<Rule> {
    let keep =
        |rule: &&Rule| rule.action == Action::Deny || rule.permission == "external_directory";
    parent.iter().filter(keep).cloned().collect()
}
