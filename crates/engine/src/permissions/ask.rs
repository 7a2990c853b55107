//! Asking and answering. A request is durable before clients see it, an answer counts once.

use std::sync::Arc;

use turnstone_core::id::{MessageId, PermissionId, QuestionId, SessionId};
use turnstone_core::model::{
    PermissionAsk, PermissionReply, QuestionAsk, RequestBody, RequestId, RequestState, UserRequest,
};
use turnstone_core::permission::{
    CallerRole, PermissionRule, PermissionVerdict, ReplyEffects, ReplyError, resolve_reply,
};
use turnstone_core::turn::{TurnEvent, TurnState};
use turnstone_store::{Context, LeaseTakeoverPolicy, Store, StoreError, Tx};

use super::error::PermissionError;
use super::gate_request::concerns_project;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::permissions::{OperationGates, PermissionRules};
use crate::turns::turn::Turn;

/// How many of the newest requests of a session can belong to the calls of one turn that are still open.
const MAX_REQUESTS_OF_TURN: usize = 200;

/// What a tool wants to do.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionQuery {
    /// What is asked.
    pub ask: PermissionAsk,
    /// Nothing else of the turn can go on before the answer: the turn waits (R28).
    pub blocks_turn: bool,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionOutcome {
    /// The rules allow it.
    Allowed,
    /// The rules deny it; these are about it.
    Denied(Vec<PermissionRule>),
    /// A person is asked.
    Pending(PermissionId),
}

/// What an answer brought about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyReport {
    /// Rules that are approved from now on.
    pub granted: Vec<PermissionRule>,
    /// The requests that are decided, the answered one first.
    pub resolved: Vec<RequestId>,
}

/// A turn that waited and continues in this process.
#[derive(Clone, Debug)]
pub struct ResumedTurn {
    /// The turn.
    pub turn: Turn,
}

/// Permission requests and questions of tools, and the answers to them.
#[derive(Clone)]
pub struct Permissions {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) rules: PermissionRules,
    pub(crate) gates: OperationGates,
}

impl Permissions {
    /// The rules that count: built in, configured, stored with a project, and approved.
    #[must_use]
    pub fn rules(&self) -> &PermissionRules {
        &self.rules
    }

    /// Gates in front of operations that undo, restore, delete or forget work (R37).
    #[must_use]
    pub fn gates(&self) -> &OperationGates {
        &self.gates
    }
}

impl Permissions {
    /// Asks whether a tool of a turn may do something: the rules first, then a person.
    ///
    /// # Errors
    ///
    /// The database refused: then the tool may not.
    pub fn ask(
        &self,
        ctx: &Context,
        turn: &Turn,
        new: &PermissionQuery,
    ) -> Result<PermissionOutcome> {
        let configured = self.rules.read_configured(ctx, &turn.session, None)?;
        let asked = self.path_origin(ctx, &turn.session)?.with_real_names(&new.ask)?;
        let judge = |ctx: &Context| {
            let rules = self.rules.resolve_with_configured(ctx, &turn.session, &configured)?;
            Ok::<_, EngineError>(rules.with_real_prefixes()?.decide(&asked))
        };
        match judge(ctx)? {
            PermissionVerdict::Allowed => return Ok(PermissionOutcome::Allowed),
            PermissionVerdict::Denied { rules } => return Ok(PermissionOutcome::Denied(rules)),
            PermissionVerdict::Ask => {}
        }
        let id = self.id_generator.new_permission_id(ctx.now)?;
        let request = build_request(&id, &turn.session, &asked);
        let (session, name, waits) = (turn.session.clone(), turn.id.clone(), new.blocks_turn);
        let ask = move |tx: &Tx<'_>| {
            tx.requests().add(&request)?;
            if waits {
                tx.turns().transition(&session, &name, &TurnEvent::Asked)?;
            }
            Ok(())
        };
        self.store.write(&turn.context(ctx), ask).wait()?;
        let ctx = &ctx.without_expected_seq();
        // It may have been approved between the rules and the question.
        if judge(ctx)? == PermissionVerdict::Allowed {
            let reply = PermissionReply::Always;
            let state = RequestState::Replied { reply, message: None, used: false };
            self.record_answer(ctx, &RequestId::Permission(id), state)?;
            self.continue_turn(ctx, turn)?;
            return Ok(PermissionOutcome::Allowed);
        }
        Ok(PermissionOutcome::Pending(id))
    }

    /// Asks a person to choose; answered with [`Self::answer_question`].
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn ask_question(
        &self,
        ctx: &Context,
        turn: &Turn,
        ask: QuestionAsk,
        waits: bool,
    ) -> Result<QuestionId> {
        let id = self.id_generator.new_question_id(ctx.now)?;
        let (session, name) = (turn.session.clone(), turn.id.clone());
        let request = UserRequest {
            id: RequestId::Question(id.clone()),
            session: session.clone(),
            body: RequestBody::Question(ask),
            state: RequestState::Pending,
        };
        let ask = move |tx: &Tx<'_>| {
            tx.requests().add(&request)?;
            if waits {
                tx.turns().transition(&session, &name, &TurnEvent::Asked)?;
            }
            Ok(())
        };
        self.store.write(&turn.context(ctx), ask).wait()?;
        Ok(id)
    }

    /// Answers a permission request, from any process, and does what follows from it.
    ///
    /// `always` approves for the project and decides what else of the session is allowed by it;
    /// `reject` rejects everything else the session asks. All or nothing.
    ///
    /// # Errors
    ///
    /// [`PermissionError::Reply`] if the request is unknown or not pending, if the caller may not
    /// answer it (a named actor not with `always`, which counts beyond its sessions), or if the user's own
    /// configuration denies what the answer would allow.
    pub fn reply(
        &self,
        ctx: &Context,
        id: &PermissionId,
        answer: PermissionReply,
        message: Option<&str>,
    ) -> Result<ReplyReport, PermissionError> {
        let pending = self.pending(ctx, None)?;
        let asked = pending.iter().find(|request| request.id.as_str() == id.as_str());
        let Some(asked) = asked else {
            return Err(self.not_pending_error(ctx, id));
        };
        self.check_responder(ctx, asked)?;
        if ctx.role == CallerRole::Named && answer == PermissionReply::Always {
            return Err(ReplyError::OnlyOnce(id.clone()).into());
        }
        let session = self.store.read(ctx, |r| r.sessions().get(&asked.session))?;
        let (answered_in, rules) = (session.clone(), self.rules.effective(ctx, &session.id)?);
        let rules = rules.with_real_prefixes()?;
        let ReplyEffects { granted, mut resolved } =
            resolve_reply(id, answer, message, &pending, &rules.layers())?;
        // A refusal also refuses the session's other requests that this caller may answer.
        let mut left = Vec::new();
        for other in pending.iter().filter(|other| other.id != asked.id) {
            if resolved.iter().any(|one| one.id == other.id) && !self.may_answer(ctx, other)? {
                left.push(other.id.clone());
            }
        }
        resolved.retain(|one| !left.contains(&one.id));
        let done = ReplyReport {
            granted: granted.clone(),
            resolved: resolved.iter().map(|one| one.id.clone()).collect(),
        };
        let write = move |tx: &Tx<'_>| {
            for rule in &granted {
                tx.projects().approve_rule_for_session(&session.project, rule, &session.id)?;
            }
            resolved.iter().try_for_each(|one| tx.requests().resolve(&one.id, &one.state).map(drop))
        };
        match self.store.write(ctx, write).wait() {
            Ok(()) => {
                let ctx = ctx.without_preconditions();
                self.rules.allow_in_clone(&ctx, &answered_in, &done.granted)?;
                Ok(done)
            }
            // It was answered in the meantime.
            Err(StoreError::Conflict { .. }) => Err(ReplyError::NotPending(id.clone()).into()),
            Err(error) => Err(error.into()),
        }
    }

    fn not_pending_error(&self, ctx: &Context, id: &PermissionId) -> PermissionError {
        match self.store.read(ctx, |r| r.requests().state(id.as_str())) {
            Ok(_) => ReplyError::NotPending(id.clone()).into(),
            Err(StoreError::NotFound { .. }) => ReplyError::NoSuchRequest(id.clone()).into(),
            Err(error) => error.into(),
        }
    }

    /// The pending requests, of one session or of all; clients get them again after a restart.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn pending(&self, ctx: &Context, session: Option<&SessionId>) -> Result<Vec<UserRequest>> {
        Ok(self.store.read(ctx, |r| r.requests().pending(session))?)
    }

    /// Refuses an answer by a caller who may not give it.
    fn check_responder(&self, ctx: &Context, asked: &UserRequest) -> Result<(), PermissionError> {
        match self.may_answer(ctx, asked)? {
            true => Ok(()),
            false => Err(ReplyError::NotAllowedToAnswer(asked.id.clone()).into()),
        }
    }

    /// Whether the caller may answer a request: who asked cannot, and neither can a runner, a tool, or a
    /// named client in a session it did not create. Only a person answers for a whole project, because the
    /// session that holds the question does not show who may decide for the project.
    fn may_answer(&self, ctx: &Context, asked: &UserRequest) -> Result<bool> {
        Ok(match ctx.role {
            CallerRole::Person => true,
            CallerRole::Runner | CallerRole::Tool => false,
            CallerRole::Named if concerns_project(asked) => false,
            CallerRole::Named => {
                let (owner, requester) = self.store.read(ctx, |r| {
                    let requester = r.requests().actor(asked.id.as_str())?;
                    Ok((r.sessions().actor(&asked.session)?, requester))
                })?;
                let own = ctx.actor.as_str();
                owner == own && requester.is_some_and(|requester| requester != own)
            }
        })
    }

    /// Answers or rejects a question; the first answer counts.
    ///
    /// # Errors
    ///
    /// [`PermissionError::Reply`] if the caller may not answer it; otherwise as [`turnstone_store::RequestMutations::resolve`].
    pub fn answer_question(
        &self,
        ctx: &Context,
        id: &RequestId,
        state: RequestState,
    ) -> Result<(), PermissionError> {
        if let Some(asked) = self.store.read(ctx, |r| r.requests().find(id.as_str()))? {
            self.check_responder(ctx, &asked)?;
        }
        Ok(self.record_answer(ctx, id, state)?)
    }

    /// Records the answer to a request; the first one counts.
    fn record_answer(&self, ctx: &Context, id: &RequestId, state: RequestState) -> Result<()> {
        let id = id.clone();
        self.store.write(ctx, move |tx| tx.requests().resolve(&id, &state)).wait()?;
        Ok(())
    }

    /// Lets a turn of this process wait: nothing of it can go on before its requests are answered (R28). A
    /// repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took it over.
    pub fn suspend_turn(&self, ctx: &Context, turn: &Turn) -> Result<()> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let wait = move |tx: &Tx<'_>| tx.turns().transition(&session, &id, &TurnEvent::Asked);
        self.store.write(&turn.context(ctx), wait).wait()?;
        Ok(())
    }

    /// The requests that a tool call has made, the newest first, with their answers.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn list_requests_of_call(
        &self,
        ctx: &Context,
        session: &SessionId,
        (message, call): (&MessageId, &str),
    ) -> Result<Vec<UserRequest>> {
        let newest =
            self.store.read(ctx, |r| r.requests().list_newest(session, MAX_REQUESTS_OF_TURN))?;
        let is_of_call = |request: &UserRequest| {
            let tool = match &request.body {
                RequestBody::Permission(ask) => ask.tool.as_ref(),
                RequestBody::Question(ask) => ask.tool.as_ref(),
            };
            tool.is_some_and(|tool| tool.message == *message && tool.call == call)
        };
        Ok(newest.into_iter().filter(is_of_call).collect())
    }

    /// Reads whether a request was answered, and how.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub fn request_state(&self, ctx: &Context, id: &RequestId) -> Result<RequestState> {
        Ok(self.store.read(ctx, |r| r.requests().state(id.as_str()))?)
    }

    /// Lets a turn of this process go on after an answer; a repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took it over.
    pub fn continue_turn(&self, ctx: &Context, turn: &Turn) -> Result<()> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let go = move |tx: &Tx<'_>| tx.turns().transition(&session, &id, &TurnEvent::Answered);
        self.store.write(&turn.context(ctx), go).wait()?;
        Ok(())
    }

    /// Takes over a turn that waited and whose process is gone, once it is answered (R28).
    ///
    /// Of several who try, one gets it.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn resume_turn(&self, ctx: &Context, session: &SessionId) -> Result<Option<ResumedTurn>> {
        let waiting = self.store.read(ctx, |r| {
            let turns = r.turns().list(session)?;
            let open = r.requests().pending(Some(session))?;
            Ok(turns.into_iter().rfind(|t| t.state == TurnState::Waiting && open.is_empty()))
        })?;
        let Some(waiting) = waiting else {
            return Ok(None);
        };
        let lease = match self.store.leases().acquire(ctx, session, LeaseTakeoverPolicy::IfDead) {
            Ok(lease) => lease,
            Err(StoreError::Busy(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let turn = Turn { session: session.clone(), id: waiting.id.clone(), lease };
        let name = session.clone();
        let go = move |tx: &Tx<'_>| {
            tx.turns().transition(&name, &waiting.id, &TurnEvent::Answered)?;
            // Another thread of this process, which has the lease, may have been faster.
            Ok(tx.last_appended().is_some())
        };
        match self.store.write(&turn.context(ctx), go).wait() {
            Ok(true) => Ok(Some(ResumedTurn { turn })),
            Ok(false) => Ok(None),
            // It ended, or another process was faster.
            Err(StoreError::Transition { .. } | StoreError::Fenced(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn build_request(
    id: &PermissionId,
    session: &SessionId,
    ask: &PermissionAsk,
) -> UserRequest {
    UserRequest {
        id: RequestId::Permission(id.clone()),
        session: session.clone(),
        body: RequestBody::Permission(ask.clone()),
        state: RequestState::Pending,
    }
}
