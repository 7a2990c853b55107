//! What an answer to a permission request brings about.

use super::{
    GateCaller, GatedOperation, PermissionRule, PermissionVerdict, RuleAction, RuleLayer,
    RuleSource, decide_ask, decide_gate, explain_decision,
};
use crate::id::PermissionId;
use crate::model::{
    PermissionAsk, PermissionReply, RequestBody, RequestId, RequestState, UserRequest,
};

/// Everything an answer brings about; to be written together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyEffects {
    /// Rules that are approved from now on.
    pub granted: Vec<PermissionRule>,
    /// Requests that are decided now, the answered one first.
    pub resolved: Vec<ResolvedRequest>,
}

/// One request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedRequest {
    /// The request.
    pub id: RequestId,
    /// Its state from now on.
    pub state: RequestState,
}

/// Why an answer was refused; nothing follows from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No such permission request.
    #[error("no permission request {0}")]
    NoSuchRequest(PermissionId),
    /// It was answered or withdrawn before.
    #[error("permission request {0} is no longer open")]
    NotPending(PermissionId),
    /// The user's own configuration denies it by now; only `reject` is accepted.
    #[error("the user configuration denies {permission} {pattern:?}; no answer can allow it")]
    DeniedByUser {
        /// The permission that was asked for.
        permission: String,
        /// The pattern that is denied.
        pattern: String,
    },
    /// The one who asked cannot answer, and neither can a program that acts for a model.
    #[error("only a person other than the requester can answer {0}")]
    NotAllowedToAnswer(RequestId),
    /// A named actor cannot approve for good: that counts in the whole project.
    #[error("only a person can answer {0} with \"always\"; \"once\" and \"reject\" are accepted")]
    OnlyOnce(PermissionId),
}

/// Works out what follows when request `id` of `requests` is answered.
///
/// `once` decides the request alone. `always` also approves its `always` patterns and decides every
/// other pending request of the same session that `layers` and the new approvals now allow.
/// `reject` also rejects every other pending permission request of the session; the message, if
/// any, goes to the answered one only. Requests of other sessions and questions are left alone.
///
/// # Errors
///
/// [`ReplyError`] if the request is unknown or no longer open, or if the user's own configuration
/// denies what the answer would allow.
pub fn resolve_reply(
    id: &PermissionId,
    answer: PermissionReply,
    message: Option<&str>,
    requests: &[UserRequest],
    layers: &[RuleLayer<'_>],
) -> Result<ReplyEffects, ReplyError> {
    let asks = || requests.iter().filter_map(|request| Some((request, permission_ask(request)?)));
    let (answered, ask) = asks()
        .find(|(request, _)| request.id.as_str() == id.as_str())
        .ok_or_else(|| ReplyError::NoSuchRequest(id.clone()))?;
    if !answered.state.is_pending() {
        return Err(ReplyError::NotPending(id.clone()));
    }
    if answer != PermissionReply::Reject {
        check_user_denial(ask, layers)?;
    }
    let granted: Vec<PermissionRule> = match answer {
        PermissionReply::Always => {
            let allow =
                |pattern: &String| PermissionRule::new(&ask.permission, pattern, RuleAction::Allow);
            ask.always.iter().map(allow).collect()
        }
        PermissionReply::Once | PermissionReply::Reject => Vec::new(),
    };
    let approved = RuleLayer { source: RuleSource::Approval, rules: &granted };
    let layers: Vec<RuleLayer<'_>> = layers.iter().copied().chain([approved]).collect();
    let follows = |ask: &PermissionAsk| match answer {
        PermissionReply::Once => false,
        PermissionReply::Always => is_allowed_now(ask, &layers),
        PermissionReply::Reject => true,
    };
    let others = asks().filter(|(request, ask)| {
        request.id != answered.id
            && request.session == answered.session
            && request.state.is_pending()
            && follows(ask)
    });
    let state = |message: Option<&str>| RequestState::Replied {
        reply: answer,
        message: message.map(str::to_owned),
        used: false,
    };
    let mut resolved = vec![ResolvedRequest { id: answered.id.clone(), state: state(message) }];
    resolved.extend(
        others.map(|(request, _)| ResolvedRequest { id: request.id.clone(), state: state(None) }),
    );
    Ok(ReplyEffects { granted, resolved })
}

/// True if the rules allow by now what another request asks for.
///
/// A gate stays as closed as it was when it was asked about: rules about everything do not open it.
fn is_allowed_now(ask: &PermissionAsk, layers: &[RuleLayer<'_>]) -> bool {
    let Some(gate) = GatedOperation::parse(&ask.permission) else {
        return decide_ask(ask, layers) == PermissionVerdict::Allowed;
    };
    let passes = |pattern: &String| {
        decide_gate(gate, pattern, GateCaller::Model, layers).action == RuleAction::Allow
    };
    ask.patterns.iter().all(passes)
}

fn check_user_denial(ask: &PermissionAsk, layers: &[RuleLayer<'_>]) -> Result<(), ReplyError> {
    let is_denied =
        |pattern: &&String| explain_decision(&ask.permission, pattern.as_str(), layers).is_final;
    match ask.patterns.iter().find(is_denied) {
        None => Ok(()),
        Some(pattern) => Err(ReplyError::DeniedByUser {
            permission: ask.permission.clone(),
            pattern: pattern.clone(),
        }),
    }
}

fn permission_ask(request: &UserRequest) -> Option<&PermissionAsk> {
    match &request.body {
        RequestBody::Permission(ask) => Some(ask),
        RequestBody::Question(_) => None,
    }
}
