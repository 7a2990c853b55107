//! Rules of a project that the user does not trust: they may tighten and never loosen.

use super::{PermissionRule, RuleAction, matches_wildcard};

/// Returns the rules of an untrusted source that are in force: its denials, and its questions where no weaker
/// rule denies. Rules that allow are dropped.
#[must_use]
pub fn tightening_rules(
    rules: &[PermissionRule],
    weaker: &[PermissionRule],
) -> Vec<PermissionRule> {
    let in_force = |rule: &&PermissionRule| match rule.action {
        RuleAction::Deny => true,
        RuleAction::Ask => !may_replace_denial(rule, weaker),
        RuleAction::Allow => false,
    };
    rules.iter().filter(in_force).cloned().collect()
}

/// True if a question could stand where a weaker rule denies.
fn may_replace_denial(question: &PermissionRule, weaker: &[PermissionRule]) -> bool {
    for rule in weaker.iter().rev() {
        if !may_overlap(&question.permission, &rule.permission) {
            continue;
        }
        if rule.action == RuleAction::Deny {
            if may_overlap(&question.pattern, &rule.pattern) {
                return true;
            }
        } else if rule.pattern == "*" && matches_wildcard(&question.permission, &rule.permission) {
            // It replaces every denial before it.
            return false;
        }
    }
    false
}

/// True unless two patterns certainly match no common text.
fn may_overlap(one: &str, other: &str) -> bool {
    let has_wildcard = |text: &str| text.contains(['*', '?']);
    matches_wildcard(one, other)
        || matches_wildcard(other, one)
        || (has_wildcard(one) && has_wildcard(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::{BuiltinAgent, RuleDirectories, agent_rules, default_rules};

    fn rule(permission: &str, pattern: &str, action: RuleAction) -> PermissionRule {
        PermissionRule::new(permission, pattern, action)
    }

    #[test]
    fn untrusted_rules_deny_and_never_allow() {
        let deny = rule("bash", "rm *", RuleAction::Deny);
        let rules = [rule("*", "*", RuleAction::Allow), deny.clone()];
        assert_eq!(tightening_rules(&rules, &[]), [deny]);
    }

    #[test]
    fn untrusted_question_does_not_replace_a_denial() {
        let directories = RuleDirectories::default();
        let weaker =
            |agent| [default_rules(&directories), agent_rules(agent, &directories)].concat();
        let in_force = |agent, permission: &str, pattern: &str| {
            let question = [rule(permission, pattern, RuleAction::Ask)];
            !tightening_rules(&question, &weaker(agent)).is_empty()
        };
        assert!(in_force(BuiltinAgent::Build, "bash", "*"));
        assert!(in_force(BuiltinAgent::Build, "edit", "*"));
        assert!(in_force(BuiltinAgent::Explore, "bash", "rm *"));
        for (permission, pattern) in
            [("edit", "*"), ("edit", "src/*"), ("*", "*"), ("e*", "*"), ("task", "*")]
        {
            let is_in_force = in_force(BuiltinAgent::Plan, permission, pattern);
            assert!(!is_in_force, "plan: {permission} {pattern}");
        }
        assert!(!in_force(BuiltinAgent::Explore, "edit", "*"));
        assert!(!in_force(BuiltinAgent::Title, "bash", "*"));
    }
}
