//! Gates: operations that undo, restore, delete or forget work, or run a project's start command (R37).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use turnstone_core::id::{OperationId, PermissionId, ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, PermissionReply, Project, RequestState, Session};
use turnstone_core::permission::{
    GateCaller, GatedOperation, RuleAction, RuleExplanation, RuleSource, decide_gate,
};
use turnstone_store::{Actor, Context, SessionFilter, Store, Tx};

use super::ask::build_request;
use super::configured_rules::RuleSettings;
use super::gate_request::{QuestionScope, build_gate_ask, request_id_of};
use super::rules::{EffectiveRules, RuleScope};
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::permissions::PermissionRules;

/// Sessions read at a time.
const PAGE: usize = 100;

/// Whether a gated operation may be done.
#[derive(Clone, Debug, PartialEq)]
pub enum GateDecision {
    /// It may.
    Allowed,
    /// It may, because a person approved it; that uses up the answer.
    Granted,
    /// It may not; the refusal is recorded.
    Denied(RuleExplanation),
    /// A person was asked and refused.
    Rejected,
    /// A person is asked; until the answer nothing is done.
    Pending(PermissionId),
}

/// Who does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateRefusal {
    /// A rule.
    Rule(RuleSource),
    /// An answer.
    Answer,
    /// There is no session in which it could be asked.
    NoSession,
}

impl fmt::Display for GateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(source) => write!(f, "denied by a rule ({})", source.as_str()),
            Self::Answer => f.write_str("a person was asked and refused"),
            Self::NoSession => f.write_str("there is no session in which it could be asked"),
        }
    }
}

/// Gates in front of operations that undo, restore, delete or forget work (R37).
#[derive(Clone)]
pub struct OperationGates {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) rules: PermissionRules,
}

impl OperationGates {
    /// Lets an operation of a session pass its gate, before it changes anything.
    ///
    /// `ctx` identifies the caller: its role, and whether its actor created the session. A person and the session's own client may unless a rule says
    /// otherwise; for others a person is asked. The answer is found again by `ctx.request`: the same actor
    /// repeats the same call under it, once. Returns the context for the writes that follow: a used answer
    /// is an event of the session, so what `ctx` expects of its number held before that.
    ///
    /// # Errors
    ///
    /// [`EngineError::PermissionRefused`], [`EngineError::PermissionPending`]; or the rules could not be read. Then the
    /// operation must not be done.
    pub fn require(
        &self,
        ctx: &Context,
        session: &SessionId,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<Context> {
        let id = self.request_name(ctx)?;
        self.enforce_gate(ctx, (session, &[]), (gate, patterns), &id)
    }

    /// Lets an operation on a project pass the gate, by the rules of its primary directory. A person is
    /// asked in its newest session; no session makes a caller the project's owner.
    ///
    /// # Errors
    ///
    /// As [`Self::require`].
    pub fn require_in_project(
        &self,
        ctx: &Context,
        project: &ProjectId,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<()> {
        let found = self.store.read(ctx, |r| r.projects().find(project))?;
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
        let session = self.find_session_to_ask_in(ctx, project)?;
        let subject = RuleScope::Project { project, directory, denials_of: session.as_ref() };
        let rules = self.rules.resolve(ctx, subject)?;
        let Some(session) = session else {
            return enforce_gate_without_session(ctx, &rules, act);
        };
        let id = self.request_name(ctx)?;
        let caller = GateCaller::from_role(ctx.role, false);
        // What the caller expects is not about the session in which the question is asked.
        let asking = ctx.without_preconditions();
        let site = (&session.id, QuestionScope::Project);
        let ruling = self.judge(&asking, site, (&rules, caller), act, &id)?;
        passed(ctx, act, ruling).map(drop)
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
                let page = r.sessions().list(&filter, cursor.as_deref(), PAGE)?;
                let mut found = Vec::new();
                for row in page.items {
                    let is_imported = r.sessions().actor(&row.session.id)? == Actor::IMPORT;
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

    /// Lets an operation on a directory pass the gate. If it belongs to no project, only the
    /// configuration of the user and of the directory counts, and a person cannot be asked.
    ///
    /// # Errors
    ///
    /// As [`Self::require`].
    pub fn require_at(
        &self,
        ctx: &Context,
        directory: &Path,
        gate: GatedOperation,
        patterns: &[String],
    ) -> Result<()> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let depth = |project: &Project| {
            let above = project.roots().filter(|root| directory.starts_with(root));
            above.map(|root| root.components().count()).max()
        };
        let closest = projects.iter().filter(|it| depth(it).is_some()).max_by_key(|it| depth(it));
        match closest {
            Some(project) => self.require_below(ctx, project, directory, (gate, patterns)),
            None => self.rules.settings().enforce_gate_at(ctx, directory, (gate, patterns)),
        }
    }

    /// Lets the deletion of a session and of the sessions it started pass the gate; deletes nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::require`].
    pub fn require_delete(&self, ctx: &Context, session: &SessionId) -> Result<Context> {
        let ids = self.store.read(ctx, |r| {
            let mut found = vec![r.sessions().get(session)?.id];
            let mut at = 0;
            while let Some(id) = found.get(at).cloned() {
                let children = r.sessions().children(&id)?.into_iter().map(|child| child.id);
                let new: Vec<SessionId> = children.filter(|id| !found.contains(id)).collect();
                found.extend(new);
                at += 1;
            }
            Ok(found)
        })?;
        let started = ids.get(1..).unwrap_or_default();
        self.check_own_denials(ctx, Some(session), started)?;
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        self.require(ctx, session, GatedOperation::Delete, &ids)
    }

    /// Refuses if a rule of one of these sessions, or of its project, denies its deletion; the refusal is
    /// recorded in `record_in`, or in that session.
    pub(crate) fn check_own_denials(
        &self,
        ctx: &Context,
        record_in: Option<&SessionId>,
        sessions: &[SessionId],
    ) -> Result<()> {
        for id in sessions {
            let (gate, pattern) = (GatedOperation::Delete, id.to_string());
            let explanation = decide_gate(
                gate,
                &pattern,
                GateCaller::Person,
                &self.rules.effective(ctx, id)?.layers(),
            );
            if let (RuleAction::Deny, Some(source)) = (explanation.action, explanation.source) {
                let ask = build_gate_ask(ctx, gate, vec![pattern.clone()], QuestionScope::Session);
                self.record_denial(&ctx.without_preconditions(), record_in.unwrap_or(id), &ask)?;
                return Err(EngineError::PermissionRefused {
                    gate,
                    pattern,
                    why: GateRefusal::Rule(source),
                });
            }
        }
        Ok(())
    }

    /// Lets an operation with a plan pass the gate; without a request of the caller, the question is
    /// named after the operation. A client may do what concerns `others` only if it created them, too, and a
    /// denial of theirs counts.
    pub(crate) fn require_for_operation(
        &self,
        ctx: &Context,
        (session, others): (&SessionId, &[SessionId]),
        gate: GatedOperation,
        patterns: &[String],
        operation: &OperationId,
    ) -> Result<()> {
        let id = match ctx.request {
            Some(_) => self.request_name(ctx)?,
            None => request_id_of(operation)?,
        };
        self.enforce_gate(ctx, (session, others), (gate, patterns), &id).map(drop)
    }

    fn enforce_gate(
        &self,
        ctx: &Context,
        sessions: (&SessionId, &[SessionId]),
        act: (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<Context> {
        // A key belongs to the operation: a question or a used answer is not what it is repeated for.
        let asking = Context { idempotency_key: None, ..ctx.clone() };
        let ruling = self.evaluate(&asking, sessions, act, id)?;
        passed(ctx, act, ruling)
    }

    /// Judges an operation before it changes anything; names the pattern that decided.
    ///
    /// Every pattern is looked at before anybody is asked. `id` names the request: an answer to it that this
    /// actor has not used yet is used up.
    ///
    /// # Errors
    ///
    /// The database refused, or the rules could not be read: then the operation must not be done.
    fn evaluate(
        &self,
        ctx: &Context,
        (session, others): (&SessionId, &[SessionId]),
        (gate, patterns): (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<(GateDecision, Option<String>)> {
        let rules = self.rules.effective(ctx, session)?;
        let is_owner = |session: &SessionId| -> Result<bool> {
            let owner = self.store.read(ctx, |r| r.sessions().actor(session))?;
            Ok(owner == ctx.actor.as_str())
        };
        let mut owns_all = is_owner(session)?;
        for other in others {
            let owns = is_owner(other)?;
            owns_all &= owns;
            let (rules, caller) =
                (self.rules.effective(ctx, other)?, GateCaller::from_role(ctx.role, owns));
            if let Some((denial, pattern)) = find_denial(&rules, caller, (gate, patterns)) {
                let scope = QuestionScope::Session;
                self.record_denial(
                    ctx,
                    session,
                    &build_gate_ask(ctx, gate, vec![pattern.clone()], scope),
                )?;
                return Ok((denial, Some(pattern)));
            }
        }
        let caller = GateCaller::from_role(ctx.role, owns_all);
        let site = (session, QuestionScope::Session);
        self.judge(ctx, site, (&rules, caller), (gate, patterns), id)
    }

    fn judge(
        &self,
        ctx: &Context,
        (session, scope): (&SessionId, QuestionScope),
        (rules, caller): (&EffectiveRules, GateCaller),
        (gate, patterns): (GatedOperation, &[String]),
        id: &PermissionId,
    ) -> Result<(GateDecision, Option<String>)> {
        let (layers, anything) = (rules.layers(), ["*".to_owned()]);
        let patterns = if patterns.is_empty() { &anything } else { patterns };
        let mut asked = Vec::new();
        for pattern in patterns {
            let explanation = decide_gate(gate, pattern, caller, &layers);
            match explanation.action {
                RuleAction::Allow => {}
                RuleAction::Ask => asked.push(pattern.clone()),
                RuleAction::Deny => {
                    let ask = build_gate_ask(ctx, gate, vec![pattern.clone()], scope);
                    self.record_denial(ctx, session, &ask)?;
                    return Ok((GateDecision::Denied(explanation), Some(pattern.clone())));
                }
            }
        }
        let Some(first) = asked.first().cloned() else {
            return Ok((GateDecision::Allowed, None));
        };
        let ask = build_gate_ask(ctx, gate, asked, scope);
        Ok((self.use_answer_or_ask(ctx, session, id, &ask)?, Some(first)))
    }

    /// Stores that a rule refused something.
    fn record_denial(&self, ctx: &Context, session: &SessionId, ask: &PermissionAsk) -> Result<()> {
        let request = build_request(&self.id_generator.new_permission_id(ctx.now)?, session, ask);
        let write = move |tx: &Tx<'_>| {
            tx.requests().add(&request)?;
            let message = Some("denied by a rule".to_owned());
            let reply = PermissionReply::Reject;
            tx.requests()
                .resolve(&request.id, &RequestState::Replied { reply, message, used: false })
        };
        self.store.write(ctx, write).wait()?;
        Ok(())
    }
}

impl RuleSettings {
    /// Judges an operation in a directory that the database does not know: a person cannot be asked, and there is nowhere to
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
        let rules = self.resolve_without_project(directory)?;
        enforce_gate_without_session(ctx, &rules, (gate, patterns))
    }
}

/// The first pattern that rules deny.
fn find_denial(
    rules: &EffectiveRules,
    caller: GateCaller,
    (gate, patterns): (GatedOperation, &[String]),
) -> Option<(GateDecision, String)> {
    let layers = rules.layers();
    patterns.iter().find_map(|pattern| {
        let explanation = decide_gate(gate, pattern, caller, &layers);
        let is_denied = explanation.action == RuleAction::Deny;
        is_denied.then(|| (GateDecision::Denied(explanation), pattern.clone()))
    })
}

/// What a ruling means for the caller, and the context to continue with.
fn passed(
    ctx: &Context,
    (gate, patterns): (GatedOperation, &[String]),
    (ruling, pattern): (GateDecision, Option<String>),
) -> Result<Context> {
    let why = match ruling {
        GateDecision::Allowed => return Ok(ctx.clone()),
        GateDecision::Granted => return Ok(ctx.without_expected_seq()),
        GateDecision::Pending(request) => {
            return Err(EngineError::PermissionPending { gate, request });
        }
        GateDecision::Rejected => GateRefusal::Answer,
        GateDecision::Denied(explanation) => {
            explanation.source.map_or(GateRefusal::NoSession, GateRefusal::Rule)
        }
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
        let explanation = decide_gate(gate, pattern, caller, &rules.layers());
        let why = match (explanation.action, explanation.source) {
            (RuleAction::Allow, _) => continue,
            (RuleAction::Deny, Some(source)) => GateRefusal::Rule(source),
            (RuleAction::Deny | RuleAction::Ask, _) => GateRefusal::NoSession,
        };
        tracing::warn!("{} {pattern:?} is not allowed: {why}", gate.as_str());
        return Err(EngineError::PermissionRefused { gate, pattern: pattern.clone(), why });
    }
    Ok(())
}
