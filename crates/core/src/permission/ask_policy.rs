//! How much allows a request: some must not pass by a rule about everything.

use super::{PermissionVerdict, RuleLayer, RuleSource, decide_request};
use crate::model::PermissionAsk;

/// The field of a request that names its policy. It is stored with the request, so that an answer to another one
/// does not decide this one by weaker rules.
const FIELD: &str = "askPolicy";
const UNLESS_PERSON_ALLOWS: &str = "unless-person-allows";
const ALWAYS: &str = "always";

/// What lets a request pass without a question. A denial holds under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskPolicy {
    /// Any rule that allows it.
    #[default]
    ByRules,
    /// A rule or an approval of a person; not the built-in rules.
    UnlessPersonAllows,
    /// Nothing: a person is asked every time.
    Always,
}

impl PermissionAsk {
    /// Returns the policy of the request. One that this version does not know is read as the strictest.
    #[must_use]
    pub fn policy(&self) -> AskPolicy {
        match self.extra.get(FIELD) {
            None => AskPolicy::ByRules,
            Some(value) if value == UNLESS_PERSON_ALLOWS => AskPolicy::UnlessPersonAllows,
            Some(_) => AskPolicy::Always,
        }
    }

    /// Sets the policy of the request.
    #[must_use]
    pub fn with_policy(mut self, policy: AskPolicy) -> Self {
        let name = match policy {
            AskPolicy::ByRules => None,
            AskPolicy::UnlessPersonAllows => Some(UNLESS_PERSON_ALLOWS),
            AskPolicy::Always => Some(ALWAYS),
        };
        match name {
            Some(name) => drop(self.extra.insert(FIELD.to_owned(), name.into())),
            None => drop(self.extra.shift_remove(FIELD)),
        }
        self
    }
}

/// Judges a request by the rules and by its policy.
#[must_use]
pub fn decide_ask(ask: &PermissionAsk, layers: &[RuleLayer<'_>]) -> PermissionVerdict {
    let verdict = decide_request(&ask.permission, &ask.patterns, layers);
    if verdict != PermissionVerdict::Allowed {
        return verdict;
    }
    let is_allowed = match ask.policy() {
        AskPolicy::ByRules => true,
        AskPolicy::Always => false,
        AskPolicy::UnlessPersonAllows => {
            let is_builtin =
                |it: &&RuleLayer<'_>| matches!(it.source, RuleSource::Builtin | RuleSource::Agent);
            let chosen: Vec<RuleLayer<'_>> =
                layers.iter().filter(|it| !is_builtin(it)).copied().collect();
            decide_request(&ask.permission, &ask.patterns, &chosen) == PermissionVerdict::Allowed
        }
    };
    if is_allowed { verdict } else { PermissionVerdict::Ask }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtraFields;
    use crate::permission::{PermissionRule, RuleAction};

    fn ask(policy: AskPolicy) -> PermissionAsk {
        let ask = PermissionAsk {
            permission: "db_query".to_owned(),
            patterns: vec!["*".to_owned()],
            metadata: ExtraFields::new(),
            always: Vec::new(),
            tool: None,
            extra: ExtraFields::new(),
        };
        let stored = serde_json::to_string(&ask.with_policy(policy)).expect("stored");
        serde_json::from_str(&stored).expect("read")
    }

    fn decide(policy: AskPolicy, rules: &[(RuleSource, &str, RuleAction)]) -> PermissionVerdict {
        let rules: Vec<_> = rules
            .iter()
            .map(|(source, permission, action)| {
                (*source, [PermissionRule::new(permission, "*", *action)])
            })
            .collect();
        let layer = |(source, rules): &(RuleSource, [PermissionRule; 1])| (*source, rules.clone());
        let owned: Vec<_> = rules.iter().map(layer).collect();
        let layers: Vec<_> =
            owned.iter().map(|(source, rules)| RuleLayer { source: *source, rules }).collect();
        decide_ask(&ask(policy), &layers)
    }

    #[test]
    fn builtin_rules_allow_only_what_goes_by_rules() {
        use AskPolicy::{Always, ByRules, UnlessPersonAllows};
        use PermissionVerdict::{Allowed, Ask};
        let builtin = (RuleSource::Builtin, "*", RuleAction::Allow);
        let agent = (RuleSource::Agent, "*", RuleAction::Allow);
        assert_eq!(decide(ByRules, &[builtin]), Allowed);
        assert_eq!(decide(UnlessPersonAllows, &[builtin, agent]), Ask);
        for source in [RuleSource::User, RuleSource::Project, RuleSource::Approval] {
            let own = (source, "db_*", RuleAction::Allow);
            assert_eq!(decide(UnlessPersonAllows, &[builtin, own]), Allowed, "{source:?}");
            assert_eq!(decide(Always, &[builtin, own]), Ask, "{source:?}");
        }
        let denied = (RuleSource::Agent, "db_*", RuleAction::Deny);
        for policy in [ByRules, UnlessPersonAllows, Always] {
            let verdict = decide(policy, &[builtin, denied]);
            assert!(matches!(verdict, PermissionVerdict::Denied { .. }), "{policy:?}");
        }
    }

    #[test]
    fn unknown_policy_is_the_strictest() {
        let mut asked = ask(AskPolicy::ByRules);
        asked.extra.insert(FIELD.to_owned(), "of-a-later-version".into());
        assert_eq!(asked.policy(), AskPolicy::Always);
        assert_eq!(asked.with_policy(AskPolicy::ByRules).policy(), AskPolicy::ByRules);
    }
}
