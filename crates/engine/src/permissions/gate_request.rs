//! The question that a gate asks, and the answer to it, which counts for one operation.

use turnstone_core::id::{OperationId, PermissionId, SessionId};
use turnstone_core::model::{
    ExtraFields, PermissionAsk, PermissionReply, RequestBody, RequestId, RequestState, UserRequest,
};
use turnstone_core::permission::{CallerRole, GatedOperation};
use turnstone_store::{Context, StoreError};

use super::ask::build_request;
use super::gate::GateDecision;
use crate::error::Result;
use crate::permissions::OperationGates;

/// How many paths a request lists; the rest is counted.
const MAX_LISTED_PATHS: usize = 100;

/// How many earlier requests of a session are compared with a repeated one.
const MAX_COMPARED_REQUESTS: usize = 100;

/// The metadata of a question about a whole project.
const SCOPE: (&str, &str) = ("scope", "project");

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionScope {
    /// The session in which it is asked.
    Session,
    /// The project of the session: only a person answers it.
    Project,
}

/// True for a question about a whole project.
pub(super) fn concerns_project(request: &UserRequest) -> bool {
    match &request.body {
        RequestBody::Permission(ask) => {
            ask.metadata.get(SCOPE.0).is_some_and(|scope| scope.as_str() == Some(SCOPE.1))
        }
        RequestBody::Question(_) => false,
    }
}

impl OperationGates {
    /// The name of the request that asks for what `ctx` wants.
    pub(crate) fn request_name(&self, ctx: &Context) -> Result<PermissionId> {
        let named = ctx.request.as_ref().and_then(|name| format!("per_{name}").parse().ok());
        match named {
            Some(id) => Ok(id),
            None => Ok(self.id_generator.new_permission_id(ctx.now)?),
        }
    }

    /// Asks a person, unless they have answered; changes nothing about an answer.
    pub(crate) fn ask_or_find_answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &PermissionId,
        ask: &PermissionAsk,
    ) -> Result<GateDecision> {
        let Some(found) = self.store.read(ctx, |r| r.requests().find(id.as_str()))? else {
            return self.ask_for_gate(ctx, session, id, ask);
        };
        check_same_question(&found, session, ask)?;
        Ok(match is_granted(&found.state) {
            None => GateDecision::Pending(id.clone()),
            Some(true) => GateDecision::Allowed,
            Some(false) => GateDecision::Rejected,
        })
    }

    /// Uses up the answer to a question of the same actor, or asks a person.
    ///
    /// An answer that was used, or that another actor got, counts for nothing: a person is asked again,
    /// under another id. A caller that does not name its request, as OpenCode's clients, finds the newest
    /// question about exactly the same again.
    pub(crate) fn use_answer_or_ask(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &PermissionId,
        ask: &PermissionAsk,
    ) -> Result<GateDecision> {
        let found = self.store.read(ctx, |r| {
            let requester = r.requests().actor(id.as_str())?;
            Ok(r.requests().find(id.as_str())?.map(|found| (found, requester)))
        })?;
        let Some((found, requester)) = found else {
            return match self.find_repeated_decision(ctx, session, ask)? {
                Some(decision) => Ok(decision),
                None => self.ask_for_gate(ctx, session, id, ask),
            };
        };
        check_same_question(&found, session, ask)?;
        if requester.as_deref() == Some(ctx.actor.as_str()) {
            match is_granted(&found.state) {
                None => return Ok(GateDecision::Pending(id.clone())),
                Some(false) => return Ok(GateDecision::Rejected),
                Some(true) => {
                    if self.store.write(ctx, move |tx| tx.requests().use_grant(&found.id)).wait()? {
                        return Ok(GateDecision::Granted);
                    }
                }
            }
        }
        let other = self.id_generator.new_permission_id(ctx.now)?;
        self.ask_for_gate(ctx, session, &other, ask)
    }

    /// What became of the newest question about exactly the same, for a caller that does not name its
    /// request; nothing if a person has to be asked.
    ///
    /// Without a digest of the request only a person is recognised: for a program, two requests that change the
    /// same paths need not be the same.
    fn find_repeated_decision(
        &self,
        ctx: &Context,
        session: &SessionId,
        ask: &PermissionAsk,
    ) -> Result<Option<GateDecision>> {
        let is_comparable = ctx.role == CallerRole::Person || ctx.request_digest.is_some();
        if ctx.request.is_some() || !is_comparable {
            return Ok(None);
        }
        let asked = self.store.read(ctx, |r| {
            r.requests().newest_permissions_by(session, ctx.actor.as_str(), MAX_COMPARED_REQUESTS)
        })?;
        let body = RequestBody::Permission(ask.clone());
        let Some(found) = asked.into_iter().find(|found| found.body == body) else {
            return Ok(None);
        };
        match (is_granted(&found.state), found.id) {
            (None, RequestId::Permission(id)) => Ok(Some(GateDecision::Pending(id))),
            (Some(true), id) => {
                let is_used_now =
                    self.store.write(ctx, move |tx| tx.requests().use_grant(&id)).wait()?;
                Ok(is_used_now.then_some(GateDecision::Granted))
            }
            (Some(false), _) | (None, RequestId::Question(_)) => Ok(None),
        }
    }

    fn ask_for_gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &PermissionId,
        ask: &PermissionAsk,
    ) -> Result<GateDecision> {
        let new = build_request(id, session, ask);
        self.store.write(ctx, move |tx| tx.requests().add(&new)).wait()?;
        Ok(GateDecision::Pending(id.clone()))
    }
}

/// Refuses an answer to another question.
fn check_same_question(
    found: &UserRequest,
    session: &SessionId,
    ask: &PermissionAsk,
) -> Result<()> {
    let is_same = found.session == *session && found.body == RequestBody::Permission(ask.clone());
    match is_same {
        true => Ok(()),
        false => Err(StoreError::Conflict { kind: "request", id: found.id.to_string() }.into()),
    }
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
pub(super) fn request_id_of(operation: &OperationId) -> Result<PermissionId> {
    let body = operation.as_str().split_once('_').map_or(operation.as_str(), |(_, body)| body);
    let id = format!("per_{body}").parse::<PermissionId>();
    Ok(id.map_err(|error| std::io::Error::other(error.to_string()))?)
}

/// The question of a gate. It holds the digest of the request, so that an answer to it counts for no other.
pub(super) fn build_gate_ask(
    ctx: &Context,
    gate: GatedOperation,
    mut patterns: Vec<String>,
    scope: QuestionScope,
) -> PermissionAsk {
    let mut metadata = ExtraFields::new();
    if patterns.len() > MAX_LISTED_PATHS {
        metadata.insert("paths".to_owned(), patterns.len().into());
        patterns.truncate(MAX_LISTED_PATHS);
    }
    if let Some(digest) = &ctx.request_digest {
        metadata.insert("request".to_owned(), digest.clone().into());
    }
    if scope == QuestionScope::Project {
        metadata.insert(SCOPE.0.to_owned(), SCOPE.1.into());
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
