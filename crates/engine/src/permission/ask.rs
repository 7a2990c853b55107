//! Asking and answering. A request is durable before anybody is told, an answer counts once.

use turnstone_core::id::{PermissionId, QuestionId, SessionId};
use turnstone_core::model::{
    PermissionAsk, PermissionReply, QuestionAsk, Request, RequestBody, RequestId, RequestState,
};
use turnstone_core::permission::{Effects, ReplyError, Role, Rule, Verdict, reply};
use turnstone_core::turn::{TurnEvent, TurnState};
use turnstone_store::{Context, StoreError, Takeover, Tx};

use super::error::PermissionError;
use super::rules::BaseRules;
use crate::engine::Engine;
use crate::error::Result;
use crate::turn::Turn;

/// What a tool wants to do.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAsk {
    /// What is asked.
    pub ask: PermissionAsk,
    /// Nothing else of the turn can go on before the answer: the turn waits (R28).
    pub waits: bool,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The rules allow it.
    Allowed,
    /// The rules deny it; these are about it.
    Denied(Vec<Rule>),
    /// A person is asked.
    Pending(PermissionId),
}

/// What an answer brought about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replied {
    /// Rules that are approved from now on.
    pub granted: Vec<Rule>,
    /// The requests that are decided, the answered one first.
    pub resolved: Vec<RequestId>,
}

/// A turn that waited and goes on in this process.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The turn.
    pub turn: Turn,
}

impl Engine {
    /// Asks whether a tool of a turn may do something: the rules first, then a person.
    ///
    /// # Errors
    ///
    /// The ledger refused: then the tool may not.
    pub fn ask_permission(
        &self,
        ctx: &Context,
        turn: &Turn,
        new: &NewAsk,
        base: &BaseRules,
    ) -> Result<Asked> {
        match self.rules(ctx, &turn.session, base)?.decide(&new.ask) {
            Verdict::Allowed => return Ok(Asked::Allowed),
            Verdict::Denied { rules } => return Ok(Asked::Denied(rules)),
            Verdict::Ask => {}
        }
        let id = self.mint.permission(ctx.now)?;
        let request = request(&id, &turn.session, &new.ask);
        let (session, name, waits) = (turn.session.clone(), turn.id.clone(), new.waits);
        let ask = move |tx: &Tx<'_>| {
            tx.ask(&request)?;
            if waits {
                tx.move_turn(&session, &name, &TurnEvent::Asked)?;
            }
            Ok(())
        };
        self.store.write(&turn.context(ctx), ask).wait()?;
        let ctx = &ctx.settled();
        // Somebody may have approved it for good between the rules and the question.
        if self.rules(ctx, &turn.session, base)?.decide(&new.ask) == Verdict::Allowed {
            let state = RequestState::Replied { reply: PermissionReply::Always, message: None };
            self.settle(ctx, &RequestId::Permission(id), state)?;
            self.go_on(ctx, turn)?;
            return Ok(Asked::Allowed);
        }
        Ok(Asked::Pending(id))
    }

    /// Asks a person to choose; answered with [`Engine::answer_question`].
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn ask_question(
        &self,
        ctx: &Context,
        turn: &Turn,
        ask: QuestionAsk,
        waits: bool,
    ) -> Result<QuestionId> {
        let id = self.mint.question(ctx.now)?;
        let (session, name) = (turn.session.clone(), turn.id.clone());
        let request = Request {
            id: RequestId::Question(id.clone()),
            session: session.clone(),
            body: RequestBody::Question(ask),
            state: RequestState::Pending,
        };
        let ask = move |tx: &Tx<'_>| {
            tx.ask(&request)?;
            if waits {
                tx.move_turn(&session, &name, &TurnEvent::Asked)?;
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
    /// [`PermissionError::Reply`] if the request is unknown or not open any more, if the caller may not
    /// answer it (a named actor not with `always`, which counts beyond its sessions), or if the user's own
    /// configuration denies what the answer would allow.
    pub fn reply_permission(
        &self,
        ctx: &Context,
        id: &PermissionId,
        answer: PermissionReply,
        message: Option<&str>,
        base: &BaseRules,
    ) -> Result<Replied, PermissionError> {
        let pending = self.pending_requests(ctx, None)?;
        let asked = pending.iter().find(|request| request.id.as_str() == id.as_str());
        let Some(asked) = asked else {
            return Err(self.not_open(ctx, id));
        };
        self.check_answerer(ctx, asked)?;
        if ctx.role == Role::Named && answer == PermissionReply::Always {
            return Err(ReplyError::OnlyOnce(id.clone()).into());
        }
        let session = self.store.read(ctx, |r| r.get_session(&asked.session))?;
        let rules = self.rules(ctx, &session.id, base)?;
        let Effects { granted, resolved } = reply(id, answer, message, &pending, &rules.layers())?;
        let done = Replied {
            granted: granted.clone(),
            resolved: resolved.iter().map(|one| one.id.clone()).collect(),
        };
        let write = move |tx: &Tx<'_>| {
            for rule in &granted {
                tx.approve_for(&session.project, rule, &session.id)?;
            }
            resolved.iter().try_for_each(|one| tx.resolve(&one.id, &one.state).map(drop))
        };
        match self.store.write(ctx, write).wait() {
            Ok(()) => Ok(done),
            // Somebody else answered between our look and our answer.
            Err(StoreError::Conflict { .. }) => Err(ReplyError::NotPending(id.clone()).into()),
            Err(error) => Err(error.into()),
        }
    }

    fn not_open(&self, ctx: &Context, id: &PermissionId) -> PermissionError {
        match self.store.read(ctx, |r| r.request_state(id.as_str())) {
            Ok(_) => ReplyError::NotPending(id.clone()).into(),
            Err(StoreError::NotFound { .. }) => ReplyError::NoSuchRequest(id.clone()).into(),
            Err(error) => error.into(),
        }
    }

    /// The requests nobody has answered, of one session or of all: told again after a restart.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn pending_requests(
        &self,
        ctx: &Context,
        session: Option<&SessionId>,
    ) -> Result<Vec<Request>> {
        Ok(self.store.read(ctx, |r| r.pending_requests(session))?)
    }

    /// Refuses an answer by a caller who may not give it: who asked cannot answer, and neither can a
    /// runner, a tool, or a named client in a session it did not create.
    fn check_answerer(&self, ctx: &Context, asked: &Request) -> Result<(), PermissionError> {
        let may_answer = match ctx.role {
            Role::Person => true,
            Role::Runner | Role::Tool => false,
            Role::Named => {
                let (owner, asker) = self.store.read(ctx, |r| {
                    let asker = r.request_actor(asked.id.as_str())?;
                    Ok((r.session_actor(&asked.session)?, asker))
                })?;
                let own = ctx.actor.as_str();
                owner == own && asker.is_some_and(|asker| asker != own)
            }
        };
        match may_answer {
            true => Ok(()),
            false => Err(ReplyError::NotAPerson(asked.id.clone()).into()),
        }
    }

    /// Answers or rejects a question; the first answer counts.
    ///
    /// # Errors
    ///
    /// [`PermissionError::Reply`] if the caller may not answer it; otherwise as [`Tx::resolve`].
    pub fn answer_question(
        &self,
        ctx: &Context,
        id: &RequestId,
        state: RequestState,
    ) -> Result<(), PermissionError> {
        if let Some(asked) = self.store.read(ctx, |r| r.find_request(id.as_str()))? {
            self.check_answerer(ctx, &asked)?;
        }
        Ok(self.settle(ctx, id, state)?)
    }

    /// Records the answer to a request; the first one counts.
    fn settle(&self, ctx: &Context, id: &RequestId, state: RequestState) -> Result<()> {
        let id = id.clone();
        self.store.write(ctx, move |tx| tx.resolve(&id, &state)).wait()?;
        Ok(())
    }

    /// Lets a turn of this process go on after an answer; a repeat changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took it over.
    pub fn go_on(&self, ctx: &Context, turn: &Turn) -> Result<()> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let go = move |tx: &Tx<'_>| tx.move_turn(&session, &id, &TurnEvent::Answered);
        self.store.write(&turn.context(ctx), go).wait()?;
        Ok(())
    }

    /// Takes over a turn that waited and whose process is gone, once it is answered (R28).
    ///
    /// Of several who try, one gets it.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn resume_turn(&self, ctx: &Context, session: &SessionId) -> Result<Option<Resumed>> {
        let waiting = self.store.read(ctx, |r| {
            let turns = r.turns(session)?;
            let open = r.pending_requests(Some(session))?;
            Ok(turns.into_iter().rfind(|t| t.state == TurnState::Waiting && open.is_empty()))
        })?;
        let Some(waiting) = waiting else {
            return Ok(None);
        };
        let lease = match self.store.lease(ctx, session, Takeover::IfDead) {
            Ok(lease) => lease,
            Err(StoreError::Busy(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let turn = Turn { session: session.clone(), id: waiting.id.clone(), lease };
        let name = session.clone();
        let go = move |tx: &Tx<'_>| {
            tx.move_turn(&name, &waiting.id, &TurnEvent::Answered)?;
            // Somebody of this process, which has the lease, may have been faster.
            Ok(tx.last_appended().is_some())
        };
        match self.store.write(&turn.context(ctx), go).wait() {
            Ok(true) => Ok(Some(Resumed { turn })),
            Ok(false) => Ok(None),
            // It ended, or somebody else was faster.
            Err(StoreError::Transition { .. } | StoreError::Fenced(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn request(id: &PermissionId, session: &SessionId, ask: &PermissionAsk) -> Request {
    Request {
        id: RequestId::Permission(id.clone()),
        session: session.clone(),
        body: RequestBody::Permission(ask.clone()),
        state: RequestState::Pending,
    }
}
