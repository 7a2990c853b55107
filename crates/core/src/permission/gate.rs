//! Operations that change more than one call of a tool: who may do them unasked (R37).

use serde::{Deserialize, Serialize};

use super::decision::find_deciding_rule;
use super::{PermissionRule, RuleAction, RuleExplanation, RuleLayer, RuleSource, matches_wildcard};

/// An operation that passes the rules before it changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatedOperation {
    /// Restore, revert, undo, redo and jump; the pattern is a path.
    Revert,
    /// Remove or reset a worktree; the pattern is a path.
    Worktree,
    /// Run a project's start command; the pattern is the command.
    Start,
    /// Delete a session with everything in it; the pattern is its id.
    Delete,
    /// Remove stored versions of files for good; the pattern is a path, as it was given.
    Forget,
    /// Remove a checkpoint; the pattern is its name.
    Checkpoint,
}

impl GatedOperation {
    /// Every gate.
    pub const ALL: [Self; 6] =
        [Self::Revert, Self::Worktree, Self::Start, Self::Delete, Self::Forget, Self::Checkpoint];

    /// The gate rules of this permission are about.
    #[must_use]
    pub fn parse(permission: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gate| gate.as_str() == permission)
    }

    /// The permission rules name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revert => "revert",
            Self::Worktree => "worktree",
            Self::Start => "start",
            Self::Delete => "delete",
            Self::Forget => "forget",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// True if `rule` counts at this gate: rules about everything (`*`) do not open it, but they do
    /// close it. A denial of `revert` also closes `forget`, which it covered before `forget` was a
    /// separate permission.
    fn is_rule_relevant(self, rule: &PermissionRule) -> bool {
        let closes = |name: &str| {
            rule.action == RuleAction::Deny && matches_wildcard(name, &rule.permission)
        };
        rule.permission == self.as_str()
            || closes(self.as_str())
            || (self == Self::Forget && closes(Self::Revert.as_str()))
    }
}

/// In which role a request is made; the caller's surroundings decide it, not the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallerRole {
    /// A person: at the command line, or at a client of the server that has no token and no name.
    Person,
    /// A program that runs models and identified itself by the token the server gave it.
    Runner,
    /// A command that runs inside a turn.
    Tool,
    /// Acts under a name: in charge of the sessions it created, and of no other.
    #[default]
    Named,
}

/// On whose behalf an operation is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateCaller {
    /// A person.
    Person,
    /// The client that works with this session.
    Client,
    /// A model: its runner, or one of its tools.
    Model,
    /// Anybody else.
    Other,
}

impl GateCaller {
    /// Who asks, given their role and whether they created the session.
    #[must_use]
    pub const fn from_role(role: CallerRole, is_owner: bool) -> Self {
        match role {
            CallerRole::Person => Self::Person,
            CallerRole::Runner | CallerRole::Tool => Self::Model,
            CallerRole::Named if is_owner => Self::Client,
            CallerRole::Named => Self::Other,
        }
    }
}

/// Decides whether `caller` may do an operation, and by which rule.
///
/// A person and the session's own client may, a model and others are asked about, unless a rule that
/// names the permission says otherwise. Rules about everything (`*`) do not open a gate: a
/// user who allows all tools has not allowed them to undo work. They do close it. Rules about an agent
/// (an agent that may change nothing, say) close it to callers other than models only if they name the permission.
#[must_use]
pub fn decide_gate(
    gate: GatedOperation,
    pattern: &str,
    caller: GateCaller,
    layers: &[RuleLayer<'_>],
) -> RuleExplanation {
    let default = match caller {
        GateCaller::Person | GateCaller::Client => RuleAction::Allow,
        GateCaller::Model | GateCaller::Other => RuleAction::Ask,
    };
    let default = [PermissionRule::new(gate.as_str(), "*", default)];
    let mut counted = vec![RuleLayer { source: RuleSource::Builtin, rules: &default }];
    counted.extend(layers.iter().filter(|layer| layer.source != RuleSource::Builtin));
    let concerns_caller = |source: RuleSource, rule: &PermissionRule| {
        !source.is_about_agent() || caller == GateCaller::Model || rule.permission != "*"
    };
    find_deciding_rule(&counted, |source, rule| {
        gate.is_rule_relevant(rule)
            && concerns_caller(source, rule)
            && matches_wildcard(pattern, &rule.pattern)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(caller: GateCaller, rules: &[PermissionRule]) -> RuleAction {
        let builtin = [PermissionRule::new("*", "*", RuleAction::Allow)];
        let layers = [
            RuleLayer { source: RuleSource::Builtin, rules: &builtin },
            RuleLayer { source: RuleSource::User, rules },
        ];
        decide_gate(GatedOperation::Revert, "src/main.rs", caller, &layers).action
    }

    /// Proves R37.
    #[test]
    fn gate_allows_people_and_own_client_asks_others() {
        for caller in [GateCaller::Person, GateCaller::Client] {
            assert_eq!(action(caller, &[]), RuleAction::Allow);
        }
        for caller in [GateCaller::Model, GateCaller::Other] {
            assert_eq!(action(caller, &[]), RuleAction::Ask);
        }
    }

    #[test]
    fn caller_follows_from_role_and_ownership() {
        for (role, is_owner, caller) in [
            (CallerRole::Tool, true, GateCaller::Model),
            (CallerRole::Runner, true, GateCaller::Model),
            (CallerRole::Person, false, GateCaller::Person),
            (CallerRole::Named, true, GateCaller::Client),
            (CallerRole::Named, false, GateCaller::Other),
        ] {
            assert_eq!(GateCaller::from_role(role, is_owner), caller, "{role:?} {is_owner}");
        }
    }

    #[test]
    fn denied_revert_also_denies_forget() {
        let rules = [PermissionRule::new("revert", "*", RuleAction::Deny)];
        let layers = [RuleLayer { source: RuleSource::Project, rules: &rules }];
        let action = |gate| decide_gate(gate, "a", GateCaller::Person, &layers).action;
        assert_eq!(action(GatedOperation::Forget), RuleAction::Deny);
        assert_eq!(action(GatedOperation::Delete), RuleAction::Allow);
        let rules = [PermissionRule::new("revert", "*", RuleAction::Allow)];
        let layers = [RuleLayer { source: RuleSource::Project, rules: &rules }];
        let tool = decide_gate(GatedOperation::Forget, "a", GateCaller::Model, &layers).action;
        assert_eq!(tool, RuleAction::Ask, "permission to undo is no permission to forget");
    }

    /// Proves R37.
    #[test]
    fn wildcard_allow_opens_no_gate_but_wildcard_deny_closes_it() {
        let all = PermissionRule::new("*", "*", RuleAction::Allow);
        assert_eq!(action(GateCaller::Model, std::slice::from_ref(&all)), RuleAction::Ask);
        let named = PermissionRule::new("revert", "src/*", RuleAction::Allow);
        assert_eq!(action(GateCaller::Model, std::slice::from_ref(&named)), RuleAction::Allow);
        let elsewhere = PermissionRule::new("revert", "docs/*", RuleAction::Allow);
        assert_eq!(action(GateCaller::Model, &[elsewhere]), RuleAction::Ask);
        let none = PermissionRule::new("*", "*", RuleAction::Deny);
        assert_eq!(action(GateCaller::Person, &[named, none]), RuleAction::Deny);
        let ask = PermissionRule::new("revert", "*", RuleAction::Ask);
        assert_eq!(action(GateCaller::Person, &[ask]), RuleAction::Ask);
    }
}
