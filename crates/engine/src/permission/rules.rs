//! Every rule that counts for a session, by where it comes from.

use serde_json::Value;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, Session};
use turnstone_core::permission::{
    Action, Explanation, Layer, Rule, Source, Verdict, decide, explain, explain_layers, inherited,
    ordered,
};
use turnstone_store::{Changed, Context, Reader};

use crate::engine::Engine;
use crate::error::Result;
use crate::prompt::newest_prompt;

/// The rules that are not in the ledger: built in, of the agent, and configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseRules {
    /// The built-in defaults.
    pub builtin: Vec<Rule>,
    /// The agent's.
    pub agent: Vec<Rule>,
    /// The user's configuration.
    pub user: Vec<Rule>,
    /// The project's configuration.
    pub project: Vec<Rule>,
}

/// Every rule that counts for a session, by where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    sources: Vec<(Source, Vec<Rule>)>,
}

impl Rules {
    /// The rules as `core` wants them, the weakest source first.
    #[must_use]
    pub fn layers(&self) -> Vec<Layer<'_>> {
        let mut layers = Vec::new();
        for (source, rules) in &self.sources {
            layers.push(Layer { source: *source, rules });
        }
        ordered(&layers)
    }

    /// Decides one pattern and names the rule and its source.
    #[must_use]
    pub fn explain(&self, permission: &str, pattern: &str) -> Explanation {
        explain(permission, pattern, &self.layers())
    }

    /// What each source alone says of a pattern, the weakest first; the last of them decides.
    #[must_use]
    pub fn explain_each(&self, permission: &str, pattern: &str) -> Vec<Explanation> {
        explain_layers(permission, pattern, &self.layers())
    }

    /// Judges a whole request.
    #[must_use]
    pub fn decide(&self, ask: &PermissionAsk) -> Verdict {
        decide(&ask.permission, &ask.patterns, &self.layers())
    }
}

impl Rules {
    /// The rules for an operation on a project.
    pub(super) fn of_project(base: BaseRules, stored: Vec<Rule>, approved: Vec<Rule>) -> Self {
        let Self { mut sources } = Self::from(base);
        sources.extend([(Source::Stored, stored), (Source::Approval, approved)]);
        Self { sources }
    }

    /// Adds what a session denies; what it allows counts in it alone.
    pub(super) fn with_denials_of(mut self, session: &Session) -> Self {
        let denied = session.permission.iter().flatten();
        let denied = denied.filter(|rule| rule.action == Action::Deny).cloned().collect();
        self.sources.push((Source::Session, denied));
        self
    }
}

impl From<BaseRules> for Rules {
    fn from(base: BaseRules) -> Self {
        let BaseRules { builtin, agent, user, project } = base;
        let sources = vec![
            (Source::Builtin, builtin),
            (Source::Agent, agent),
            (Source::User, user),
            (Source::Project, project),
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
pub fn read_rules(
    reader: &Reader<'_>,
    session: &SessionId,
    base: &BaseRules,
) -> turnstone_store::Result<Rules> {
    let own = reader.get_session(session)?;
    let Rules { mut sources } = Rules::from(base.clone());
    let project = reader.find_project(&own.project)?;
    sources.push((Source::Stored, project.and_then(|it| it.permission).unwrap_or_default()));
    sources.push((Source::Session, own.permission.clone().unwrap_or_default()));
    sources.push((Source::Session, prompt_rules(reader, session)?));
    let mut seen = vec![own.id.clone()];
    let mut above = own.parent.clone();
    // A session that is its own forefather has no more denials than once around.
    while let Some(id) = above.filter(|id| !seen.contains(id)) {
        let Some(parent) = reader.find_session(&id)? else { break };
        sources.push((Source::Parent, inherited(&parent.permission.unwrap_or_default())));
        seen.push(id);
        above = parent.parent;
    }
    sources.push((Source::Approval, reader.approvals(&own.project)?));
    Ok(Rules { sources })
}

/// What the newest prompt says of single tools.
fn prompt_rules(reader: &Reader<'_>, session: &SessionId) -> turnstone_store::Result<Vec<Rule>> {
    let Some(user) = newest_prompt(reader, session)? else {
        return Ok(Vec::new());
    };
    // What does not clearly say "on" is off.
    let rule = |(tool, is_on): (&String, &Value)| {
        let action = if is_on.as_bool() == Some(true) { Action::Allow } else { Action::Deny };
        Rule::new(tool, "*", action)
    };
    Ok(user.tools.iter().flatten().map(rule).collect())
}

impl Engine {
    /// The rules of a session as they are at this moment.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn rules(&self, ctx: &Context, session: &SessionId, base: &BaseRules) -> Result<Rules> {
        Ok(self.store.read(ctx, |r| read_rules(r, session, base))?)
    }

    /// What was approved for a project for good, oldest first.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn approvals(&self, ctx: &Context, project: &ProjectId) -> Result<Vec<Rule>> {
        Ok(self.store.read(ctx, |r| r.approvals(project))?)
    }

    /// Takes an approval back; false if there was none.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn revoke(&self, ctx: &Context, project: &ProjectId, rule: &Rule) -> Result<bool> {
        let (project, rule) = (project.clone(), rule.clone());
        let changed = self.store.write(ctx, move |tx| tx.withdraw(&project, &rule)).wait()?;
        Ok(changed != Changed::No)
    }

    /// Stores a rule with a project; it takes the place of one about the same.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NoProject`].
    pub fn set_rule(&self, ctx: &Context, project: &ProjectId, rule: &Rule) -> Result<()> {
        let rule = rule.clone();
        self.change_project(ctx, project, move |project| {
            let rules = project.permission.get_or_insert_default();
            rules.retain(|one| !is_about(one, &rule));
            rules.push(rule.clone());
        })
    }

    /// Removes a rule that is stored with a project; false if there is none about this.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NoProject`].
    pub fn unset_rule(&self, ctx: &Context, project: &ProjectId, rule: &Rule) -> Result<bool> {
        let stored = self.get_project(ctx, project)?.permission.unwrap_or_default();
        let is_there = stored.iter().any(|one| is_about(one, rule));
        let rule = rule.clone();
        self.change_project(ctx, project, move |project| {
            if let Some(rules) = &mut project.permission {
                rules.retain(|one| !is_about(one, &rule));
            }
        })?;
        Ok(is_there)
    }
}

/// True for two rules about the same permission and pattern.
fn is_about(one: &Rule, other: &Rule) -> bool {
    (&one.permission, &one.pattern) == (&other.permission, &other.pattern)
}
