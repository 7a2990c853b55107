//! What an answer to a permission request brings about.

use super::{Action, Rule, Verdict, decide};
use crate::id::PermissionId;
use crate::model::{PermissionAsk, PermissionReply, Request, RequestBody, RequestId, RequestState};

/// Everything an answer brings about; to be written together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Rules that are approved from now on.
    pub granted: Vec<Rule>,
    /// Requests that are decided now, the answered one first.
    pub resolved: Vec<Resolved>,
}

/// One request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The request.
    pub id: RequestId,
    /// Its state from now on.
    pub state: RequestState,
}

/// Why an answer was refused; nothing follows from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No such permission request.
    #[error("there is no permission request {0}")]
    NoSuchRequest(PermissionId),
    /// It was answered or withdrawn before.
    #[error("permission request {0} is not open any more")]
    NotPending(PermissionId),
}

/// Works out what follows when request `id` of `requests` is answered.
///
/// `once` decides the request alone. `always` also approves its `always` patterns and decides every
/// other pending request of the same session that `rulesets` and the new approvals now allow.
/// `reject` also rejects every other pending permission request of the session; the message, if
/// any, goes to the answered one only. Requests of other sessions and questions are left alone.
///
/// # Errors
///
/// [`ReplyError`] if the request is unknown or no longer open.
pub fn reply(
    id: &PermissionId,
    answer: PermissionReply,
    message: Option<&str>,
    requests: &[Request],
    rulesets: &[&[Rule]],
) -> Result<Effects, ReplyError> {
    let asks = || requests.iter().filter_map(|request| Some((request, permission(request)?)));
    let (answered, ask) = asks()
        .find(|(request, _)| request.id.as_str() == id.as_str())
        .ok_or_else(|| ReplyError::NoSuchRequest(id.clone()))?;
    if !answered.state.is_pending() {
        return Err(ReplyError::NotPending(id.clone()));
    }
    let granted: Vec<Rule> = match answer {
        PermissionReply::Always => {
            let allow = |pattern: &String| Rule::new(&ask.permission, pattern, Action::Allow);
            ask.always.iter().map(allow).collect()
        }
        PermissionReply::Once | PermissionReply::Reject => Vec::new(),
    };
    let rulesets: Vec<&[Rule]> = rulesets.iter().copied().chain([granted.as_slice()]).collect();
    let follows = |ask: &PermissionAsk| match answer {
        PermissionReply::Once => false,
        PermissionReply::Always => {
            decide(&ask.permission, &ask.patterns, &rulesets) == Verdict::Allowed
        }
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
    };
    let mut resolved = vec![Resolved { id: answered.id.clone(), state: state(message) }];
    resolved
        .extend(others.map(|(request, _)| Resolved { id: request.id.clone(), state: state(None) }));
    Ok(Effects { granted, resolved })
}

fn permission(request: &Request) -> Option<&PermissionAsk> {
    match &request.body {
        RequestBody::Permission(ask) => Some(ask),
        RequestBody::Question(_) => None,
    }
}
