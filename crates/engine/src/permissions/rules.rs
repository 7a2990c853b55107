//! Every rule that counts for a session, by where it comes from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, Project, Session};
use turnstone_core::permission::{
    PermissionRule, PermissionVerdict, RuleAction, RuleExplanation, RuleLayer, RuleSource,
    decide_ask, explain_decision, explain_each_layer, inherited_rules, sort_layers,
};
use turnstone_store::{Context, ReadTx, Store, WriteOutcome};

use super::configured_rules::{RulesAgent, root_names};
use super::path_names::with_real_prefixes;
use crate::error::{EngineError, Result};
use crate::permissions::RuleSettings;
use crate::projects::project_records::ProjectRecords;
use crate::turns::exec::CommandOrigin;
use crate::turns::newest_prompt::find_newest_prompt;

/// Whose rules are wanted.
#[derive(Clone, Copy, Debug)]
pub enum RuleScope<'a> {
    /// A tool or an operation of a session. The agent is the one that is named, else that of the newest
    /// prompt, else that of the session, else the configured default.
    Session {
        /// The session.
        session: &'a SessionId,
        /// The agent, if it is not the session's.
        agent: Option<&'a str>,
    },
    /// An operation on a whole project; no agent has a part in it.
    Project {
        /// The project.
        project: &'a Project,
        /// Where in the project.
        directory: &'a Path,
        /// What this session denies counts too; what it allows counts in it alone.
        denials_of: Option<&'a Session>,
    },
    /// A session that would begin in a directory.
    Directory {
        /// The directory.
        directory: &'a Path,
        /// The directories that bound the search for its files.
        roots: &'a [String],
        /// The agent, if it is not the configured default.
        agent: Option<&'a str>,
    },
}

/// The rules of a session that are not in the database, source by source.
pub(super) type ConfiguredSources = Vec<(RuleSource, Vec<PermissionRule>)>;

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

    /// What each source alone decides about a pattern, the weakest first; the last of them decides.
    #[must_use]
    pub fn explain_each(&self, permission: &str, pattern: &str) -> Vec<RuleExplanation> {
        explain_each_layer(permission, pattern, &self.layers())
    }

    /// The same rules for paths of which every name is judged: those about absolute paths also count under
    /// the real names of their folders.
    ///
    /// # Errors
    ///
    /// The links of a folder in a rule cannot be followed.
    pub fn with_real_prefixes(self) -> Result<Self> {
        let real = |(source, rules): (RuleSource, Vec<PermissionRule>)| {
            Ok::<_, EngineError>((source, with_real_prefixes(&rules)?))
        };
        Ok(Self { sources: self.sources.into_iter().map(real).collect::<Result<_>>()? })
    }

    /// Judges a whole request.
    #[must_use]
    pub fn decide(&self, ask: &PermissionAsk) -> PermissionVerdict {
        decide_ask(ask, &self.layers())
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
    configured: &ConfiguredSources,
) -> turnstone_store::Result<EffectiveRules> {
    let own = reader.sessions().get(session)?;
    let mut sources = configured.clone();
    let project = reader.projects().find(&own.project)?;
    let holding = |rules: Vec<PermissionRule>| match &project {
        Some(project) => project.rules_in(Path::new(&own.directory), rules),
        None => rules,
    };
    let stored = project.as_ref().and_then(|it| it.permission.clone()).unwrap_or_default();
    sources.push((RuleSource::Stored, holding(stored)));
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
    let approved = holding(reader.projects().approved_rules(&own.project)?);
    sources.push((RuleSource::Approval, approved));
    Ok(EffectiveRules { sources })
}

/// The rules of the newest prompt for single tools.
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

impl RuleSettings {
    /// The rules for an operation in a directory that the database does not know: those that are built in
    /// and configured.
    pub(super) fn resolve_without_project(&self, directory: &Path) -> Result<EffectiveRules> {
        let roots = [directory.to_string_lossy().into_owned()];
        let sources = self.read_rules((directory, &roots), RulesAgent::None)?;
        Ok(EffectiveRules { sources })
    }
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

    /// Every rule that counts at this moment, configuration included. Every route, command and driver
    /// takes its rules from here (R38).
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::UnreadableRules`] if a configuration file cannot be understood: it may hold a
    /// denial; or the database refused.
    pub fn resolve(&self, ctx: &Context, subject: RuleScope<'_>) -> Result<EffectiveRules> {
        match subject {
            RuleScope::Session { session, agent } => {
                let configured = self.read_configured(ctx, session, agent)?;
                self.resolve_with_configured(ctx, session, &configured)
            }
            RuleScope::Project { project, directory, denials_of } => {
                let roots = root_names(project);
                let mut sources =
                    self.settings.read_rules((directory, &roots), RulesAgent::None)?;
                let stored = project.permission.clone().unwrap_or_default();
                sources.push((RuleSource::Stored, project.rules_in(directory, stored)));
                let denied = denials_of.and_then(|it| it.permission.as_ref()).into_iter().flatten();
                let denied = denied.filter(|rule| rule.action == RuleAction::Deny).cloned();
                sources.push((RuleSource::Session, denied.collect()));
                let approved = self.list_approvals(ctx, &project.id)?;
                sources.push((RuleSource::Approval, project.rules_in(directory, approved)));
                Ok(EffectiveRules { sources })
            }
            RuleScope::Directory { directory, roots, agent } => {
                let agent = agent.map_or(RulesAgent::Default, RulesAgent::Named);
                let sources = self.settings.read_rules((directory, roots), agent)?;
                Ok(EffectiveRules { sources })
            }
        }
    }

    /// The rules for a session, as `Self::resolve` finds them for its own agent.
    ///
    /// # Errors
    ///
    /// As [`Self::resolve`].
    pub fn effective(&self, ctx: &Context, session: &SessionId) -> Result<EffectiveRules> {
        self.resolve(ctx, RuleScope::Session { session, agent: None })
    }

    /// The rules for a session that are not in the database.
    pub(super) fn read_configured(
        &self,
        ctx: &Context,
        session: &SessionId,
        agent: Option<&str>,
    ) -> Result<ConfiguredSources> {
        let (directory, roots, own) = self.store.read(ctx, |r| {
            let own = r.sessions().get(session)?;
            let roots =
                r.projects().find(&own.project)?.map(|it| root_names(&it)).unwrap_or_default();
            // `turnstone exec` has no agent: the next prompt in its session has the default one.
            let prompt = find_newest_prompt(r, session)?;
            let prompt = prompt.filter(|it| !CommandOrigin::is_exec_model(&it.model));
            Ok((PathBuf::from(own.directory), roots, prompt.map(|it| it.agent).or(own.agent)))
        })?;
        let agent = agent.or(own.as_deref()).map_or(RulesAgent::Default, RulesAgent::Named);
        self.settings.read_rules((&directory, &roots), agent)
    }

    /// The rules of a session: the configured ones, which were read before, then those of the database now.
    pub(super) fn resolve_with_configured(
        &self,
        ctx: &Context,
        session: &SessionId,
        configured: &ConfiguredSources,
    ) -> Result<EffectiveRules> {
        Ok(self.store.read(ctx, |r| read_effective_rules(r, session, configured))?)
    }

    /// What was approved for a project for good, oldest first.
    ///
    /// # Errors
    ///
    /// The database refused.
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
    /// The database refused.
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

    /// Lets rules that a person has just allowed in a session hold in its directory, if that is a clone of
    /// the project that nobody has confirmed.
    pub(super) fn allow_in_clone(
        &self,
        ctx: &Context,
        session: &Session,
        granted: &[PermissionRule],
    ) -> Result<()> {
        let directory = PathBuf::from(&session.directory);
        let project = self.store.read(ctx, |r| r.projects().find(&session.project))?;
        let clone = project.as_ref().and_then(|project| project.find_joined_clone(&directory));
        let (Some(clone), false) = (clone, granted.is_empty()) else { return Ok(()) };
        let (root, granted) = (clone.directory.clone(), granted.to_vec());
        self.projects.modify(ctx, &session.project, move |project| {
            let clones = project.joined_clones.iter_mut();
            for clone in clones.filter(|clone| clone.directory == root) {
                let is_new = |rule: &&PermissionRule| !clone.allowed.contains(rule);
                let added: Vec<_> = granted.iter().filter(is_new).cloned().collect();
                clone.allowed.extend(added);
            }
        })
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
