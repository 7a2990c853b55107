//! Operations that change more than one call of a tool: who may do them unasked (R37).

use serde::{Deserialize, Serialize};

use super::{Action, Explanation, Layer, Rule, Source, explain};

/// An operation that passes the rules before it changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Restore, revert, undo, redo, jump and forget; the pattern is a path.
    Revert,
    /// Remove or reset a worktree; the pattern is a path.
    Worktree,
    /// Run a project's start command; the pattern is the command.
    Start,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Self; 3] = [Self::Revert, Self::Worktree, Self::Start];

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
        }
    }
}

/// On whose behalf an operation is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Caller {
    /// A person at the command line.
    Person,
    /// The client that works with this session.
    Client,
    /// A tool of a model.
    Model,
    /// Anybody else.
    Other,
}

impl Caller {
    /// The client that says: a person, at the command line.
    pub const CLI: &'static str = "cli";
    /// The client that says: a tool of a model.
    pub const TOOL: &'static str = "tool";

    /// Who asks, given the program they use and whether the session is theirs.
    #[must_use]
    pub fn of(client: Option<&str>, is_owner: bool) -> Self {
        match client {
            Some(Self::TOOL) => Self::Model,
            Some(Self::CLI) => Self::Person,
            Some(_) | None if is_owner => Self::Client,
            Some(_) | None => Self::Other,
        }
    }
}

/// Decides whether `caller` may do an operation, and by which rule.
///
/// A person and the session's own client may, a model and others are asked about, unless a rule that
/// names the permission says otherwise. Rules about everything (`*`) do not open a gate: whoever
/// allowed all tools has not allowed them to take work back. They do close it.
#[must_use]
pub fn pass_gate(gate: Gate, pattern: &str, caller: Caller, layers: &[Layer<'_>]) -> Explanation {
    let usual = match caller {
        Caller::Person | Caller::Client => Action::Allow,
        Caller::Model | Caller::Other => Action::Ask,
    };
    let usual = [Rule::new(gate.as_str(), "*", usual)];
    let counts = |rule: &&Rule| rule.permission == gate.as_str() || rule.action == Action::Deny;
    let kept: Vec<(Source, Vec<Rule>)> = layers
        .iter()
        .filter(|layer| layer.source != Source::Builtin)
        .map(|layer| (layer.source, layer.rules.iter().filter(counts).cloned().collect()))
        .collect();
    let mut named = vec![Layer { source: Source::Builtin, rules: &usual }];
    named.extend(kept.iter().map(|(source, rules)| Layer { source: *source, rules }));
    explain(gate.as_str(), pattern, &named)
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
    fn a_tool_is_a_tool_whosever_session_it_works_in_r37() {
        for (client, is_owner, caller) in [
            (Some("tool"), true, Caller::Model),
            (Some("cli"), false, Caller::Person),
            (Some("web"), true, Caller::Client),
            (None, true, Caller::Client),
            (Some("web"), false, Caller::Other),
            (None, false, Caller::Other),
        ] {
            assert_eq!(Caller::of(client, is_owner), caller, "{client:?} {is_owner}");
        }
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
