//! Operations that change more than one call of a tool: who may do them unasked (R37).

use serde::{Deserialize, Serialize};

use super::decision::find_deciding_rule;
use super::{Action, Explanation, Layer, Rule, Source, matches};

/// An operation that passes the rules before it changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
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

impl Gate {
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
    /// close it. A denial of `revert` closes `forget` as well, which it covered before `forget` had
    /// a name of its own.
    fn is_concerned(self, rule: &Rule) -> bool {
        let closes = |name: &str| rule.action == Action::Deny && matches(name, &rule.permission);
        rule.permission == self.as_str()
            || closes(self.as_str())
            || (self == Self::Forget && closes(Self::Revert.as_str()))
    }
}

/// In which role a request is made; the caller's surroundings decide it, not the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
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
pub enum Caller {
    /// A person.
    Person,
    /// The client that works with this session.
    Client,
    /// A model: its runner, or one of its tools.
    Model,
    /// Anybody else.
    Other,
}

impl Caller {
    /// Who asks, given their role and whether they created the session.
    #[must_use]
    pub const fn of(role: Role, is_owner: bool) -> Self {
        match role {
            Role::Person => Self::Person,
            Role::Runner | Role::Tool => Self::Model,
            Role::Named if is_owner => Self::Client,
            Role::Named => Self::Other,
        }
    }
}

/// Decides whether `caller` may do an operation, and by which rule.
///
/// A person and the session's own client may, a model and others are asked about, unless a rule that
/// names the permission says otherwise. Rules about everything (`*`) do not open a gate: whoever
/// allowed all tools has not allowed them to undo work. They do close it.
#[must_use]
pub fn pass_gate(gate: Gate, pattern: &str, caller: Caller, layers: &[Layer<'_>]) -> Explanation {
    let default = match caller {
        Caller::Person | Caller::Client => Action::Allow,
        Caller::Model | Caller::Other => Action::Ask,
    };
    let default = [Rule::new(gate.as_str(), "*", default)];
    let mut counted = vec![Layer { source: Source::Builtin, rules: &default }];
    counted.extend(layers.iter().filter(|layer| layer.source != Source::Builtin));
    find_deciding_rule(&counted, |rule| gate.is_concerned(rule) && matches(pattern, &rule.pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(caller: Caller, rules: &[Rule]) -> Action {
        let builtin = [Rule::new("*", "*", Action::Allow)];
        let layers = [
            Layer { source: Source::Builtin, rules: &builtin },
            Layer { source: Source::User, rules },
        ];
        pass_gate(Gate::Revert, "src/main.rs", caller, &layers).action
    }

    #[test]
    fn a_person_and_the_own_client_may_others_are_asked_about_r37() {
        for caller in [Caller::Person, Caller::Client] {
            assert_eq!(action(caller, &[]), Action::Allow);
        }
        for caller in [Caller::Model, Caller::Other] {
            assert_eq!(action(caller, &[]), Action::Ask);
        }
    }

    #[test]
    fn only_a_person_and_the_creator_of_a_session_pass_unasked() {
        for (role, is_owner, caller) in [
            (Role::Tool, true, Caller::Model),
            (Role::Runner, true, Caller::Model),
            (Role::Person, false, Caller::Person),
            (Role::Named, true, Caller::Client),
            (Role::Named, false, Caller::Other),
        ] {
            assert_eq!(Caller::of(role, is_owner), caller, "{role:?} {is_owner}");
        }
    }

    #[test]
    fn denial_of_revert_closes_forget_too() {
        let rules = [Rule::new("revert", "*", Action::Deny)];
        let layers = [Layer { source: Source::Project, rules: &rules }];
        let action = |gate| pass_gate(gate, "a", Caller::Person, &layers).action;
        assert_eq!(action(Gate::Forget), Action::Deny);
        assert_eq!(action(Gate::Delete), Action::Allow);
        let rules = [Rule::new("revert", "*", Action::Allow)];
        let layers = [Layer { source: Source::Project, rules: &rules }];
        let tool = pass_gate(Gate::Forget, "a", Caller::Model, &layers).action;
        assert_eq!(tool, Action::Ask, "permission to undo is no permission to forget");
    }

    #[test]
    fn only_a_rule_that_names_the_gate_opens_it_and_any_denial_closes_it_r37() {
        let all = Rule::new("*", "*", Action::Allow);
        assert_eq!(action(Caller::Model, std::slice::from_ref(&all)), Action::Ask);
        let named = Rule::new("revert", "src/*", Action::Allow);
        assert_eq!(action(Caller::Model, std::slice::from_ref(&named)), Action::Allow);
        let elsewhere = Rule::new("revert", "docs/*", Action::Allow);
        assert_eq!(action(Caller::Model, &[elsewhere]), Action::Ask);
        let none = Rule::new("*", "*", Action::Deny);
        assert_eq!(action(Caller::Person, &[named, none]), Action::Deny);
        let ask = Rule::new("revert", "*", Action::Ask);
        assert_eq!(action(Caller::Person, &[ask]), Action::Ask);
    }
}
