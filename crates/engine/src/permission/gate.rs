//! Gates: operations that undo, restore, delete or forget work, or run a project's start command (R37).

use std::fmt;
use std::path::Path;

use turnstone_core::id::{OperationId, PermissionId, ProjectId, SessionId};
use turnstone_core::model::{
    Extra, PermissionAsk, PermissionReply, Project, RequestBody, RequestId, RequestState, Session,
};
use turnstone_core::permission::{Action, Caller, Explanation, Gate, Source, pass_gate};
use turnstone_store::{Actor, Context, Deleted, SessionFilter, StoreError, Tx};

use super::ask::request;
use super::rules::Rules;
use super::standing::{StandingRules, root_names};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::undo::UndoPlan;

/// How many paths a request lists; the rest is counted.
const LISTED: usize = 100;

/// Sessions read at a time.
const PAGE: usize = 100;

/// Whether a gated operation may be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It may.
    Allowed,
    /// It may not; the refusal is recorded.
    Denied(Explanation),
    /// Whoever was asked said no.
    Rejected,
    /// A person is asked; until the answer nothing is done.
    Pending(PermissionId),
}

/// Who does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A rule.
    Rule(Source),
    /// Whoever was asked.
    Answer,
    /// There is nobody to ask: the project has no session.
    Nobody,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(source) => write!(f, "denied by a rule ({})", source.as_str()),
            Self::Answer => f.write_str("somebody was asked and said no"),
            Self::Nobody => f.write_str("there is no session in which it could be asked"),
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
    /// [`EngineError::Refused`], [`EngineError::Asked`]; or the rules could not be read. Then the
    /// operation must not be done.
    pub fn require(
        &self,
        ctx: &Context,
        session: &SessionId,
        gate: Gate,
        patterns: &[String],
    ) -> Result<()> {
        let id = self.request_name(ctx)?;
        self.pass(ctx, session, (gate, patterns), &id)
    }

    /// The name of the request that asks for what `ctx` wants.
    fn request_name(&self, ctx: &Context) -> Result<PermissionId> {
        let named = ctx.request.as_ref().and_then(|name| format!("per_{name}").parse().ok());
        match named {
            Some(id) => Ok(id),
            None => Ok(self.mint.permission(ctx.now)?),
        }
    }

    /// The same for an operation on a project, by the rules of its primary directory. A person is asked in
    /// its newest session; no session makes a caller the project's owner.
    ///
    /// # Errors
    ///
    /// As [`Engine::require`].
    pub fn require_in(
        &self,
        ctx: &Context,
        project: &ProjectId,
        gate: Gate,
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
        act: (Gate, &[String]),
    ) -> Result<()> {
        let base = self.rules_in(directory, &root_names(project))?;
        let approved = self.approvals(ctx, &project.id)?;
        let stored = project.permission.clone().unwrap_or_default();
        let rules = Rules::of_project(base, stored, approved);
        let Some(session) = self.find_session_to_ask_in(ctx, project)? else {
            return judge_without_session(ctx, &rules, act);
        };
        let rules = rules.with_denials_of(&session);
        let id = self.request_name(ctx)?;
        let caller = Caller::of(ctx.role, false);
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
    /// As [`Engine::require`].
    pub fn require_at(
        &self,
        ctx: &Context,
        directory: &Path,
        gate: Gate,
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
            None => self.settings.rules.judge_at(ctx, directory, (gate, patterns)),
        }
    }

    /// Lets the deletion of a session and of the sessions it started pass the gate; deletes nothing.
    ///
    /// # Errors
    ///
    /// As [`Engine::require`].
    pub fn require_delete(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ids = self.store.read(ctx, |r| {
            let mut found = vec![r.get_session(session)?.id];
            let mut at = 0;
            while let Some(id) = found.get(at).cloned() {
                let children = r.children(&id)?.into_iter().map(|child| child.id);
                let new: Vec<SessionId> = children.filter(|id| !found.contains(id)).collect();
                found.extend(new);
                at += 1;
            }
            Ok(found)
        })?;
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        self.require(ctx, session, Gate::Delete, &ids)
    }

    /// Refuses if a rule of one of these sessions, or of its project, denies its deletion.
    pub(crate) fn check_own_denials(&self, ctx: &Context, sessions: &[SessionId]) -> Result<()> {
        for id in sessions {
            let (gate, pattern) = (Gate::Delete, id.to_string());
            let told = pass_gate(gate, &pattern, Caller::Person, &self.rules_of(ctx, id)?.layers());
            if let (Action::Deny, Some(source)) = (told.action, told.source) {
                return Err(EngineError::Refused { gate, pattern, why: Refusal::Rule(source) });
            }
        }
        Ok(())
    }

    /// Deletes a session with the sessions it started, once the gate lets it pass.
    ///
    /// # Errors
    ///
    /// As [`Engine::require`] and [`turnstone_store::Store::delete_session`].
    pub fn delete_session(&self, ctx: &Context, session: &SessionId) -> Result<Deleted> {
        self.require_delete(ctx, session)?;
        Ok(self.store.delete_session(ctx, session)?)
    }

    /// Lets a plan pass before it is written down. An answer counts for this plan alone.
    pub(crate) fn let_pass(&self, ctx: &Context, plan: &UndoPlan) -> Result<()> {
        let busy = self.store.read(ctx, |r| r.turns(&plan.session))?;
        if busy.iter().any(|turn| turn.state.is_open()) {
            return Err(StoreError::Busy(plan.session.clone()).into());
        }
        let steps = plan.roots.iter().flat_map(|root| &root.plan.steps);
        let paths: Vec<String> = steps.map(|step| step.path.to_string()).collect();
        let id = request_of(&plan.operation)?;
        self.pass(ctx, &plan.session, (Gate::Revert, &paths), &id)
    }

    fn pass(
        &self,
        ctx: &Context,
        session: &SessionId,
        act: (Gate, &[String]),
        id: &PermissionId,
    ) -> Result<()> {
        let ruling = self.gate(ctx, session, act, id)?;
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
    pub fn gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        (gate, patterns): (Gate, &[String]),
        id: &PermissionId,
    ) -> Result<(Ruling, Option<String>)> {
        let rules = self.rules_of(ctx, session)?;
        let owner = self.store.read(ctx, |r| r.session_actor(session))?;
        let caller = Caller::of(ctx.role, owner == ctx.actor.as_str());
        self.judge(ctx, session, (&rules, caller), (gate, patterns), id)
    }

    fn judge(
        &self,
        ctx: &Context,
        session: &SessionId,
        (rules, caller): (&Rules, Caller),
        (gate, patterns): (Gate, &[String]),
        id: &PermissionId,
    ) -> Result<(Ruling, Option<String>)> {
        let (layers, anything) = (rules.layers(), ["*".to_owned()]);
        let patterns = if patterns.is_empty() { &anything } else { patterns };
        let mut asked = Vec::new();
        for pattern in patterns {
            let told = pass_gate(gate, pattern, caller, &layers);
            match told.action {
                Action::Allow => {}
                Action::Ask => asked.push(pattern.clone()),
                Action::Deny => {
                    self.record_denial(ctx, session, &question(gate, vec![pattern.clone()]))?;
                    return Ok((Ruling::Denied(told), Some(pattern.clone())));
                }
            }
        }
        let Some(first) = asked.first().cloned() else {
            return Ok((Ruling::Allowed, None));
        };
        Ok((self.ask_gate(ctx, session, id, &question(gate, asked))?, Some(first)))
    }

    /// Asks a person, unless they have answered.
    pub(super) fn ask_gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &PermissionId,
        ask: &PermissionAsk,
    ) -> Result<Ruling> {
        let new = request(id, session, ask);
        let Some(found) = self.store.read(ctx, |r| r.find_request(id.as_str()))? else {
            self.store.write(ctx, move |tx| tx.ask(&new)).wait()?;
            return Ok(Ruling::Pending(id.clone()));
        };
        // An answer to another question is none to this one.
        if found.session != *session || found.body != RequestBody::Permission(ask.clone()) {
            return Err(StoreError::Conflict { kind: "request", id: id.to_string() }.into());
        }
        Ok(match granted(&found.state) {
            None => Ruling::Pending(id.clone()),
            Some(true) => Ruling::Allowed,
            Some(false) => Ruling::Rejected,
        })
    }

    /// Writes down that a rule refused something.
    fn record_denial(&self, ctx: &Context, session: &SessionId, ask: &PermissionAsk) -> Result<()> {
        let request = request(&self.mint.permission(ctx.now)?, session, ask);
        let write = move |tx: &Tx<'_>| {
            tx.ask(&request)?;
            let message = Some("denied by a rule".to_owned());
            let reply = PermissionReply::Reject;
            tx.resolve(&request.id, &RequestState::Replied { reply, message })
        };
        self.store.write(ctx, write).wait()?;
        Ok(())
    }

    /// What became of a gate that was asked about: nothing while nobody has answered.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NotFound`] for an unknown request.
    pub fn gate_answer(&self, ctx: &Context, id: &PermissionId) -> Result<Option<bool>> {
        let id = RequestId::Permission(id.clone());
        Ok(granted(&self.store.read(ctx, |r| r.request_state(id.as_str()))?))
    }
}

impl StandingRules {
    /// Judges an operation where no ledger knows the directory: there is nobody to ask, and nowhere to
    /// record a refusal.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`], or the rules could not be read.
    pub fn judge_at(
        &self,
        ctx: &Context,
        directory: &Path,
        (gate, patterns): (Gate, &[String]),
    ) -> Result<()> {
        let roots = [directory.to_string_lossy().into_owned()];
        let rules = Rules::from(self.rules_in(directory, &roots)?);
        judge_without_session(ctx, &rules, (gate, patterns))
    }
}

/// What a ruling means for whoever wants to go on.
fn passed(
    (gate, patterns): (Gate, &[String]),
    (ruling, pattern): (Ruling, Option<String>),
) -> Result<()> {
    let why = match ruling {
        Ruling::Allowed => return Ok(()),
        Ruling::Pending(request) => return Err(EngineError::Asked { gate, request }),
        Ruling::Rejected => Refusal::Answer,
        Ruling::Denied(told) => told.source.map_or(Refusal::Nobody, Refusal::Rule),
    };
    let pattern = pattern.or_else(|| patterns.first().cloned());
    Err(EngineError::Refused { gate, pattern: pattern.unwrap_or_else(|| "*".to_owned()), why })
}

/// Judges an operation of a place without a session: a question cannot be asked there.
fn judge_without_session(
    ctx: &Context,
    rules: &Rules,
    (gate, patterns): (Gate, &[String]),
) -> Result<()> {
    let caller = Caller::of(ctx.role, false);
    let anything = ["*".to_owned()];
    let patterns = if patterns.is_empty() { &anything } else { patterns };
    for pattern in patterns {
        let told = pass_gate(gate, pattern, caller, &rules.layers());
        let why = match (told.action, told.source) {
            (Action::Allow, _) => continue,
            (Action::Deny, Some(source)) => Refusal::Rule(source),
            (Action::Deny | Action::Ask, _) => Refusal::Nobody,
        };
        tracing::warn!("{} {pattern:?} is not allowed: {why}", gate.as_str());
        return Err(EngineError::Refused { gate, pattern: pattern.clone(), why });
    }
    Ok(())
}

/// Whether an answer allows something; nothing while there is none.
fn granted(state: &RequestState) -> Option<bool> {
    match state {
        RequestState::Pending => None,
        RequestState::Replied { reply, .. } => Some(*reply != PermissionReply::Reject),
        RequestState::Answered { .. } | RequestState::Rejected | RequestState::Withdrawn => {
            Some(false)
        }
    }
}

/// The request that asks for an operation: one for each, found again by its name.
fn request_of(operation: &OperationId) -> Result<PermissionId> {
    let body = operation.as_str().split_once('_').map_or(operation.as_str(), |(_, body)| body);
    let id = format!("per_{body}").parse::<PermissionId>();
    Ok(id.map_err(|error| std::io::Error::other(error.to_string()))?)
}

fn question(gate: Gate, mut patterns: Vec<String>) -> PermissionAsk {
    let mut metadata = Extra::new();
    if patterns.len() > LISTED {
        metadata.insert("paths".to_owned(), patterns.len().into());
        patterns.truncate(LISTED);
    }
    PermissionAsk {
        permission: gate.as_str().to_owned(),
        always: patterns.clone(),
        patterns,
        metadata,
        tool: None,
        extra: Extra::new(),
    }
}
