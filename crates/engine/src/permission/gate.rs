//! Gates: operations that undo, restore, delete or forget work, or run a project's start command (R37).

use std::fmt;
use std::path::Path;

use turnstone_core::id::{OperationId, PermissionId, ProjectId, SessionId};
use turnstone_core::model::{
    ExtraFields, PermissionAsk, PermissionReply, Project, RequestBody, RequestId, RequestState,
    Session,
};
use turnstone_core::permission::{
    GateCaller, GatedOperation, RuleAction, RuleExplanation, RuleSource, decide_gate,
};
use turnstone_store::{Actor, Context, DeletionReport, SessionFilter, StoreError, Tx};

use super::ask::build_request;
use super::configured_rules::{RuleSettings, root_names};
use super::rules::EffectiveRules;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::undo::UndoPlan;

/// How many paths a request lists; the rest is counted.
const MAX_LISTED_PATHS: usize = 100;

/// Sessions read at a time.
const PAGE: usize = 100;

/// Whether a gated operation may be done.
#[derive(Clone, Debug, PartialEq)]
pub enum GateDecision {
    /// It may.
    Allowed,
    /// It may not; the refusal is recorded.
    Denied(RuleExplanation),
    /// Whoever was asked said no.
    Rejected,
    /// A person is asked; until the answer nothing is done.
    Pending(PermissionId),
}

/// Who does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateRefusal {
    /// A rule.
    Rule(RuleSource),
    /// Whoever was asked.
    Answer,
    /// There is nobody to ask: the project has no session.
    NoSession,
}

impl fmt::Display for GateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(source) => write!(f, "denied by a rule ({})", source.as_str()),
            Self::Answer => f.write_str("somebody was asked and said no"),
            Self::NoSession => f.write_str("there is no session in which it could be asked"),
        }
    }
}

impl Engine {
    /// Lets an operation of a session pass its gate, before it changes anything.
    ///
    /// Who asks is told by `ctx`: its role, and whether its actor created the session. A person and the session's own client may unless a rule says
    /// otherwise; for others a person is asked. The answer is found again by `ctx.request`, so that
    /// whoever may go on once it is there repeats the call with the same one.
    ///
    /// # Errors
    ///
    /// [`EngineError::PermissionRefused`], [`EngineError::PermissionPending`]; or the rules could not be read. Then the
    /// operation must not be done.
    pub fn require_permission(
        &self,
        ctx: &Context,
        session: &SessionId,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<()> {
        let id = self.request_name(ctx)?;
        self.enforce_gate(ctx, session, (gate, patterns), &id)
    }

    /// The name of the request that asks for what `ctx` wants.
    fn request_name(&self, ctx: &Context) -> Result<PermissionId> {
        let named = ctx.request.as_ref().and_then(|name| format!("per_{name}").parse().ok());
        match named {
            Some(id) => Ok(id),
            None => Ok(self.id_generator.new_permission_id(ctx.now)?),
        }
    }

    /// The same for an operation on a project, by the rules of its primary directory. A person is asked in
    /// its newest session; no session makes a caller the project's owner.
    ///
    /// # Errors
    ///
    /// As [`Engine::require_permission`].
    pub fn require_permission_in_project(
        &self,
        ctx: &Context,
        project: &ProjectId,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<()> {
        let found = self.store.read(ctx, |r| r.find_project(project))?;
        let Some(found) = found else { return Err(EngineError::NoProject(project.clone())) };
        self.require_below(ctx, &found, found.worktree.as_ref(), (gate, patterns))
    }

    /// Judges an operation in a directory of a project, by the rules of that directory.
    fn require_below(
        &self,
        ctx: &Context,
        project: &Project,
        directory: &Path,
        act: (GatedOperation, &[String]),
    ) -> Result<()> {
        let base = self.read_base_rules_in(directory, &root_names(project))?;
        let approved = self.list_approvals(ctx, &project.id)?;
        let stored = project.permission.clone().unwrap_or_default();
        let rules = EffectiveRules::of_project(base, stored, approved);
        let Some(session) = self.find_session_to_ask_in(ctx, project)? else {
            return enforce_gate_without_session(ctx, &rules, act);
        };
        let rules = rules.with_denials_of(&session);
        let id = self.request_name(ctx)?;
        let caller = GateCaller::from_role(ctx.role, false);
        let ruling = self.judge(ctx, &session.id, (&rules, caller), act, &id)?;
        passed(act, ruling)
    }

    /// The session in which a question about a project is asked: the newest one that works in it. One that
    /// was imported may claim any time and place, so it is taken only where there is no other.
    fn find_session_to_ask_in(&self, ctx: &Context, project: &Project) -> Result<Option<Session>> {
        let filter = SessionFilter {
            project: Some(project.id.clone()),
            roots: true,
            archived: true,
            ..SessionFilter::default()
        };
        let works_here = |session: &Session| {
            let mut roots = project.roots().peekable();
            roots.peek().is_none() || roots.any(|it| Path::new(&session.directory).starts_with(it))
        };
        let (mut other, mut cursor) = (None, None::<String>);
        loop {
            let page = self.store.read(ctx, |r| {
                let page = r.list_sessions(&filter, cursor.as_deref(), PAGE)?;
                let mut found = Vec::new();
                for row in page.items {
                    let is_imported = r.session_actor(&row.session.id)? == Actor::IMPORT;
                    found.push((row.session, is_imported));
                }
                Ok((found, page.next))
            })?;
            let (found, next) = page;
            for (session, is_imported) in found {
                if !is_imported && works_here(&session) {
                    return Ok(Some(session));
                }
                other.get_or_insert(session);
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(other);
            }
        }
    }

    /// The same for an operation on a directory, which may belong to no project: then only the
    /// configuration of the user and of the directory counts, and nobody can be asked.
    ///
    /// # Errors
    ///
    /// As [`Engine::require_permission`].
    pub fn require_permission_at(
        &self,
        ctx: &Context,
        directory: &Path,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<()> {
        let projects = self.store.read(ctx, |r| r.projects())?;
        let depth = |project: &Project| {
            let above = project.roots().filter(|root| directory.starts_with(root));
            above.map(|root| root.components().count()).max()
        };
        let closest = projects.iter().filter(|it| depth(it).is_some()).max_by_key(|it| depth(it));
        match closest {
            Some(project) => self.require_below(ctx, project, directory, (gate, patterns)),
            None => self.settings.rules.enforce_gate_at(ctx, directory, (gate, patterns)),
        }
    }

    /// Lets the deletion of a session and of the sessions it started pass the gate; deletes nothing.
    ///
    /// # Errors
    ///
    /// As [`Engine::require_permission`].
    pub fn require_delete_permission(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ids = self.store.read(ctx, |r| {
            let mut found = vec![r.get_session(session)?.id];
            let mut at = 0;
            while let Some(id) = found.get(at).cloned() {
                let children = r.child_sessions(&id)?.into_iter().map(|child| child.id);
                let new: Vec<SessionId> = children.filter(|id| !found.contains(id)).collect();
                found.extend(new);
                at += 1;
            }
            Ok(found)
        })?;
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        self.require_permission(ctx, session, GatedOperation::Delete, &ids)
    }

    /// Refuses if a rule of one of these sessions, or of its project, denies its deletion.
    pub(crate) fn check_own_denials(&self, ctx: &Context, sessions: &[SessionId]) -> Result<()> {
        for id in sessions {
            let (gate, pattern) = (GatedOperation::Delete, id.to_string());
            let told = decide_gate(
                gate,
                &pattern,
                GateCaller::Person,
                &self.effective_rules(ctx, id)?.layers(),
            );
            if let (RuleAction::Deny, Some(source)) = (told.action, told.source) {
                return Err(EngineError::PermissionRefused {
                    gate,
                    pattern,
                    why: GateRefusal::Rule(source),
                });
            }
        }
        Ok(())
    }

    /// Deletes a session with the sessions it started, once the gate lets it pass.
    ///
    /// # Errors
    ///
    /// As [`Engine::require_permission`] and [`turnstone_store::Store::delete_session`].
    pub fn delete_session(&self, ctx: &Context, session: &SessionId) -> Result<DeletionReport> {
        self.require_delete_permission(ctx, session)?;
        Ok(self.store.delete_session(ctx, session)?)
    }

    /// Lets a plan pass before it is written down. An answer counts for this plan alone.
    pub(crate) fn require_plan_permission(&self, ctx: &Context, plan: &UndoPlan) -> Result<()> {
        let busy = self.store.read(ctx, |r| r.turns(&plan.session))?;
        if busy.iter().any(|turn| turn.state.is_open()) {
            return Err(StoreError::Busy(plan.session.clone()).into());
        }
        let steps = plan.roots.iter().flat_map(|root| &root.plan.steps);
        let paths: Vec<String> = steps.map(|step| step.path.to_string()).collect();
        let id = request_id_of(&plan.operation)?;
        self.enforce_gate(ctx, &plan.session, (GatedOperation::Revert, &paths), &id)
    }

    fn enforce_gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        act: (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<()> {
        let ruling = self.evaluate_gate(ctx, session, act, id)?;
        passed(act, ruling)
    }

    /// Judges an operation before it changes anything; names the pattern that decided.
    ///
    /// Every pattern is looked at before anybody is asked. `id` names the request: one that was
    /// answered before is not asked again.
    ///
    /// # Errors
    ///
    /// The ledger refused, or the rules could not be read: then the operation must not be done.
    pub fn evaluate_gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        (gate, patterns): (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<(GateDecision, Option<String>)> {
        let rules = self.effective_rules(ctx, session)?;
        let owner = self.store.read(ctx, |r| r.session_actor(session))?;
        let caller = GateCaller::from_role(ctx.role, owner == ctx.actor.as_str());
        self.judge(ctx, session, (&rules, caller), (gate, patterns), id)
    }

    fn judge(
        &self,
        ctx: &Context,
        session: &SessionId,
        (rules, caller): (&EffectiveRules, GateCaller),
        (gate, patterns): (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<(GateDecision, Option<String>)> {
        let (layers, anything) = (rules.layers(), ["*".to_owned()]);
        let patterns = if patterns.is_empty() { &anything } else { patterns };
        let mut asked = Vec::new();
        for pattern in patterns {
            let told = decide_gate(gate, pattern, caller, &layers);
            match told.action {
                RuleAction::Allow => {}
                RuleAction::Ask => asked.push(pattern.clone()),
                RuleAction::Deny => {
                    self.record_denial(ctx, session, &build_gate_ask(gate, vec![pattern.clone()]))?;
                    return Ok((GateDecision::Denied(told), Some(pattern.clone())));
                }
            }
        }
        let Some(first) = asked.first().cloned() else {
            return Ok((GateDecision::Allowed, None));
        };
        Ok((self.ask_for_gate(ctx, session, id, &build_gate_ask(gate, asked))?, Some(first)))
    }

    /// Asks a person, unless they have answered.
    pub(super) fn ask_for_gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &PermissionId,
        ask: &PermissionAsk,
    ) -> Result<GateDecision> {
        let new = build_request(id, session, ask);
        let Some(found) = self.store.read(ctx, |r| r.find_request(id.as_str()))? else {
            self.store.write(ctx, move |tx| tx.add_request(&new)).wait()?;
            return Ok(GateDecision::Pending(id.clone()));
        };
        // An answer to another question is none to this one.
        if found.session != *session || found.body != RequestBody::Permission(ask.clone()) {
            return Err(StoreError::Conflict { kind: "request", id: id.to_string() }.into());
        }
        Ok(match is_granted(&found.state) {
            None => GateDecision::Pending(id.clone()),
            Some(true) => GateDecision::Allowed,
            Some(false) => GateDecision::Rejected,
        })
    }

    /// Writes down that a rule refused something.
    fn record_denial(&self, ctx: &Context, session: &SessionId, ask: &PermissionAsk) -> Result<()> {
        let request = build_request(&self.id_generator.new_permission_id(ctx.now)?, session, ask);
        let write = move |tx: &Tx<'_>| {
            tx.add_request(&request)?;
            let message = Some("denied by a rule".to_owned());
            let reply = PermissionReply::Reject;
            tx.resolve_request(&request.id, &RequestState::Replied { reply, message })
        };
        self.store.write(ctx, write).wait()?;
        Ok(())
    }

    /// What became of a gate that was asked about: nothing while nobody has answered.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NotFound`] for an unknown request.
    pub fn find_gate_answer(&self, ctx: &Context, id: &PermissionId) -> Result<Option<bool>> {
        let id = RequestId::Permission(id.clone());
        Ok(is_granted(&self.store.read(ctx, |r| r.request_state(id.as_str()))?))
    }
}

impl RuleSettings {
    /// Judges an operation where no ledger knows the directory: there is nobody to ask, and nowhere to
    /// record a refusal.
    ///
    /// # Errors
    ///
    /// [`EngineError::PermissionRefused`], or the rules could not be read.
    pub fn enforce_gate_at(
        &self,
        ctx: &Context,
        directory: &Path,
        (gate, patterns): (GatedOperation, &[String]),
    ) -> Result<()> {
        let roots = [directory.to_string_lossy().into_owned()];
        let rules = EffectiveRules::from(self.read_base_rules_in(directory, &roots)?);
        enforce_gate_without_session(ctx, &rules, (gate, patterns))
    }
}

/// What a ruling means for whoever wants to go on.
fn passed(
    (gate, patterns): (GatedOperation, &[String]),
    (ruling, pattern): (GateDecision, Option<String>),
) -> Result<()> {
    let why = match ruling {
        GateDecision::Allowed => return Ok(()),
        GateDecision::Pending(request) => {
            return Err(EngineError::PermissionPending { gate, request });
        }
        GateDecision::Rejected => GateRefusal::Answer,
        GateDecision::Denied(told) => told.source.map_or(GateRefusal::NoSession, GateRefusal::Rule),
    };
    let pattern = pattern.or_else(|| patterns.first().cloned());
    Err(EngineError::PermissionRefused {
        gate,
        pattern: pattern.unwrap_or_else(|| "*".to_owned()),
        why,
    })
}

/// Judges an operation of a place without a session: a question cannot be asked there.
fn enforce_gate_without_session(
    ctx: &Context,
    rules: &EffectiveRules,
    (gate, patterns): (GatedOperation, &[String]),
) -> Result<()> {
    let caller = GateCaller::from_role(ctx.role, false);
    let anything = ["*".to_owned()];
    let patterns = if patterns.is_empty() { &anything } else { patterns };
    for pattern in patterns {
        let told = decide_gate(gate, pattern, caller, &rules.layers());
        let why = match (told.action, told.source) {
            (RuleAction::Allow, _) => continue,
            (RuleAction::Deny, Some(source)) => GateRefusal::Rule(source),
            (RuleAction::Deny | RuleAction::Ask, _) => GateRefusal::NoSession,
        };
        tracing::warn!("{} {pattern:?} is not allowed: {why}", gate.as_str());
        return Err(EngineError::PermissionRefused { gate, pattern: pattern.clone(), why });
    }
    Ok(())
}

/// Whether an answer allows something; nothing while there is none.
fn is_granted(state: &RequestState) -> Option<bool> {
    match state {
        RequestState::Pending => None,
        RequestState::Replied { reply, .. } => Some(*reply != PermissionReply::Reject),
        RequestState::Answered { .. } | RequestState::Rejected | RequestState::Withdrawn => {
            Some(false)
        }
    }
}

/// The request that asks for an operation: one for each, found again by its name.
fn request_id_of(operation: &OperationId) -> Result<PermissionId> {
    let body = operation.as_str().split_once('_').map_or(operation.as_str(), |(_, body)| body);
    let id = format!("per_{body}").parse::<PermissionId>();
    Ok(id.map_err(|error| std::io::Error::other(error.to_string()))?)
}

fn build_gate_ask(gate: GatedOperation, mut patterns: Vec<String>) -> PermissionAsk {
    let mut metadata = ExtraFields::new();
    if patterns.len() > MAX_LISTED_PATHS {
        metadata.insert("paths".to_owned(), patterns.len().into());
        patterns.truncate(MAX_LISTED_PATHS);
    }
    PermissionAsk {
        permission: gate.as_str().to_owned(),
        always: patterns.clone(),
        patterns,
        metadata,
        tool: None,
        extra: ExtraFields::new(),
    }
}
