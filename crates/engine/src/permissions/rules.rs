//! Every rule that counts for a session, by where it comes from.

use std::sync::Arc;

use serde_json::Value;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, Session};
use turnstone_core::permission::{
    PermissionRule, PermissionVerdict, RuleAction, RuleExplanation, RuleLayer, RuleSource,
    decide_request, explain_decision, explain_each_layer, inherited_rules, sort_layers,
};
use turnstone_store::{Context, ReadTx, Store, WriteOutcome};

use crate::error::Result;
use crate::permissions::RuleSettings;
use crate::projects::project_records::ProjectRecords;
use crate::turns::newest_prompt::find_newest_prompt;

/// The rules that are not in the ledger: built in, of the agent, and configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseRules {
    /// The built-in defaults.
    pub builtin: Vec<PermissionRule>,
    /// The agent's.
    pub agent: Vec<PermissionRule>,
    /// The user's configuration.
    pub user: Vec<PermissionRule>,
    /// The project's configuration.
    pub project: Vec<PermissionRule>,
}

/// Every rule that counts for a session, by where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveRules {
    sources: Vec<(RuleSource, Vec<PermissionRule>)>,
}

impl EffectiveRules {
    /// The rules as `core` wants them, the weakest source first.
    #[must_use]
    pub fn layers(&self) -> Vec<RuleLayer<'_>> {
        let mut layers = Vec::new();
        for (source, rules) in &self.sources {
            layers.push(RuleLayer { source: *source, rules });
        }
        sort_layers(&layers)
    }

    /// Decides one pattern and names the rule and its source.
    #[must_use]
    pub fn explain(&self, permission: &str, pattern: &str) -> RuleExplanation {
        explain_decision(permission, pattern, &self.layers())
    }

    /// What each source alone says of a pattern, the weakest first; the last of them decides.
    #[must_use]
    pub fn explain_each(&self, permission: &str, pattern: &str) -> Vec<RuleExplanation> {
        explain_each_layer(permission, pattern, &self.layers())
    }

    /// Judges a whole request.
    #[must_use]
    pub fn decide(&self, ask: &PermissionAsk) -> PermissionVerdict {
        decide_request(&ask.permission, &ask.patterns, &self.layers())
    }
}

impl EffectiveRules {
    /// The rules for an operation on a project.
    pub(super) fn of_project(
        base: BaseRules,
        stored: Vec<PermissionRule>,
        approved: Vec<PermissionRule>,
    ) -> Self {
        let Self { mut sources } = Self::from(base);
        sources.extend([(RuleSource::Stored, stored), (RuleSource::Approval, approved)]);
        Self { sources }
    }

    /// Adds what a session denies; what it allows counts in it alone.
    pub(super) fn with_denials_of(mut self, session: &Session) -> Self {
        let denied = session.permission.iter().flatten();
        let denied = denied.filter(|rule| rule.action == RuleAction::Deny).cloned().collect();
        self.sources.push((RuleSource::Session, denied));
        self
    }
}

impl From<BaseRules> for EffectiveRules {
    fn from(base: BaseRules) -> Self {
        let BaseRules { builtin, agent, user, project } = base;
        let sources = vec![
            (RuleSource::Builtin, builtin),
            (RuleSource::Agent, agent),
            (RuleSource::User, user),
            (RuleSource::Project, project),
        ];
        Self { sources }
    }
}

/// Reads the rules of a session as they are now and puts them behind those that are not stored.
///
/// The tools a prompt switched on or off come behind the session's own rules and erase none of them;
/// what a parent session may not do comes behind both.
///
/// # Errors
///
/// [`turnstone_store::StoreError::NoSession`].
fn read_effective_rules(
    reader: &ReadTx<'_>,
    session: &SessionId,
    base: &BaseRules,
) -> turnstone_store::Result<EffectiveRules> {
    let own = reader.sessions().get(session)?;
    let EffectiveRules { mut sources } = EffectiveRules::from(base.clone());
    let project = reader.projects().find(&own.project)?;
    sources.push((RuleSource::Stored, project.and_then(|it| it.permission).unwrap_or_default()));
    sources.push((RuleSource::Session, own.permission.clone().unwrap_or_default()));
    sources.push((RuleSource::Session, prompt_rules(reader, session)?));
    let mut seen = vec![own.id.clone()];
    let mut above = own.parent.clone();
    // A session may be its own ancestor; each counts once.
    while let Some(id) = above.filter(|id| !seen.contains(id)) {
        let Some(parent) = reader.sessions().find(&id)? else { break };
        sources.push((RuleSource::Parent, inherited_rules(&parent.permission.unwrap_or_default())));
        seen.push(id);
        above = parent.parent;
    }
    sources.push((RuleSource::Approval, reader.projects().approved_rules(&own.project)?));
    Ok(EffectiveRules { sources })
}

/// What the newest prompt says of single tools.
fn prompt_rules(
    reader: &ReadTx<'_>,
    session: &SessionId,
) -> turnstone_store::Result<Vec<PermissionRule>> {
    let Some(user) = find_newest_prompt(reader, session)? else {
        return Ok(Vec::new());
    };
    // What does not clearly say "on" is off.
    let rule = |(tool, is_on): (&String, &Value)| {
        let action =
            if is_on.as_bool() == Some(true) { RuleAction::Allow } else { RuleAction::Deny };
        PermissionRule::new(tool, "*", action)
    };
    Ok(user.tools.iter().flatten().map(rule).collect())
}

/// The rules that count: built in, configured, stored with a project, and approved.
#[derive(Clone)]
pub struct PermissionRules {
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Arc<RuleSettings>,
    pub(crate) projects: ProjectRecords,
}

impl PermissionRules {
    /// The rules the engine was opened with.
    pub(super) fn settings(&self) -> &RuleSettings {
        &self.settings
    }

    /// The rules of a session as they are at this moment.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn effective_over(
        &self,
        ctx: &Context,
        session: &SessionId,
        base: &BaseRules,
    ) -> Result<EffectiveRules> {
        Ok(self.store.read(ctx, |r| read_effective_rules(r, session, base))?)
    }

    /// What was approved for a project for good, oldest first.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn list_approvals(
        &self,
        ctx: &Context,
        project: &ProjectId,
    ) -> Result<Vec<PermissionRule>> {
        Ok(self.store.read(ctx, |r| r.projects().approved_rules(project))?)
    }

    /// Revokes an approval; false if there was none.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn revoke_approval(
        &self,
        ctx: &Context,
        project: &ProjectId,
        rule: &PermissionRule,
    ) -> Result<bool> {
        let (project, rule) = (project.clone(), rule.clone());
        let changed =
            self.store.write(ctx, move |tx| tx.projects().withdraw_rule(&project, &rule)).wait()?;
        Ok(changed != WriteOutcome::No)
    }

    /// Stores a rule with a project; it takes the place of one about the same.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NoProject`].
    pub fn set(&self, ctx: &Context, project: &ProjectId, rule: &PermissionRule) -> Result<()> {
        let rule = rule.clone();
        self.projects.modify(ctx, project, move |project| {
            let rules = project.permission.get_or_insert_default();
            rules.retain(|one| !is_same_subject(one, &rule));
            rules.push(rule.clone());
        })
    }

    /// Removes a rule that is stored with a project; false if there is none about this.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NoProject`].
    pub fn unset(&self, ctx: &Context, project: &ProjectId, rule: &PermissionRule) -> Result<bool> {
        let stored = self.projects.get(ctx, project)?.permission.unwrap_or_default();
        let is_there = stored.iter().any(|one| is_same_subject(one, rule));
        let rule = rule.clone();
        self.projects.modify(ctx, project, move |project| {
            if let Some(rules) = &mut project.permission {
                rules.retain(|one| !is_same_subject(one, &rule));
            }
        })?;
        Ok(is_there)
    }
}

/// True for two rules about the same permission and pattern.
fn is_same_subject(one: &PermissionRule, other: &PermissionRule) -> bool {
    (&one.permission, &one.pattern) == (&other.permission, &other.pattern)
}
