//! Forks: a copy of a conversation up to a point, under new ids.
//!
//! Owns what is copied and what is renamed. Mints no id itself: the caller hands them in. Which
//! captures a fork holds is not decided here (R40).

use std::collections::HashMap;

use crate::context::Entry;
use crate::id::{MessageId, PartId, SessionId};
use crate::model::{Extra, Message, MessageBody, Origin, Part, PartBody, Session, SessionTime};
use crate::name::fork_title;
use crate::time::Millis;

/// What a fork consists of; nothing has been written.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkPlan {
    /// The copied messages with their parts, in the order of the original.
    pub messages: Vec<Entry>,
    /// Which message became which, in the same order.
    pub renamed: Vec<(MessageId, MessageId)>,
    /// Which part became which, in the same order.
    pub parts: Vec<(PartId, PartId)>,
}

/// Why a fork was refused; nothing has been written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// The message to fork at is not part of the conversation.
    #[error("message {0} is not part of the session")]
    NoSuchMessage(MessageId),
}

/// Plans a copy of the messages before `at`, or of all, into the session `into`.
///
/// `messages` are in stream order, and the cut is made by position: ids are never compared (they
/// wrap). Every message and part gets a new id. An answer's parent and a compaction's tail follow
/// their messages; a parent that was not copied stays as it is, a tail outside the copy is dropped.
/// All else is copied as it is: times, tokens, cost, errors, snapshots, and the ids inside
/// attachments.
///
/// # Errors
///
/// [`ForkError::NoSuchMessage`] if `at` is unknown. OpenCode copies everything then, which answers a
/// slip with a fork of the wrong length; here it is refused.
pub fn plan_fork(
    mut messages: Vec<Entry>,
    at: Option<&MessageId>,
    into: &SessionId,
    mut new_message: impl FnMut() -> MessageId,
    mut new_part: impl FnMut() -> PartId,
) -> Result<ForkPlan, ForkError> {
    if let Some(id) = at {
        let end = messages.iter().position(|(message, _)| message.id == *id);
        messages.truncate(end.ok_or_else(|| ForkError::NoSuchMessage(id.clone()))?);
    }
    let renamed: Vec<(MessageId, MessageId)> =
        messages.iter().map(|(message, _)| (message.id.clone(), new_message())).collect();
    let names: HashMap<&MessageId, &MessageId> =
        renamed.iter().map(|(old, new)| (old, new)).collect();
    let mut parts = Vec::new();
    let mut copies = Vec::with_capacity(messages.len());
    for ((message, said), (_, id)) in messages.into_iter().zip(&renamed) {
        let message = Message {
            id: id.clone(),
            session: into.clone(),
            body: renamed_in(message.body, &names),
        };
        let said = said.into_iter().map(|part| {
            let new = new_part();
            parts.push((part.id, new.clone()));
            let body = renamed_in_part(part.body, &names);
            Part { id: new, session: into.clone(), message: id.clone(), body }
        });
        copies.push((message, said.collect()));
    }
    Ok(ForkPlan { messages: copies, renamed, parts })
}

fn renamed_in(mut body: MessageBody, names: &HashMap<&MessageId, &MessageId>) -> MessageBody {
    if let MessageBody::Assistant(said) = &mut body
        && let Some(parent) = names.get(&said.parent)
    {
        said.parent = (*parent).clone();
    }
    body
}

fn renamed_in_part(mut body: PartBody, names: &HashMap<&MessageId, &MessageId>) -> PartBody {
    if let PartBody::Compaction(compaction) = &mut body {
        let tail = compaction.tail_start.take();
        compaction.tail_start = tail.and_then(|tail| names.get(&tail).map(|new| (*new).clone()));
    }
    body
}

/// What a forked session has of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Its id.
    pub id: SessionId,
    /// Its slug.
    pub slug: String,
    /// The version of the program that makes it.
    pub version: String,
    /// When it is made.
    pub now: Millis,
    /// Where it was taken (R40).
    pub origin: Origin,
}

/// The session of a fork: a root session in the place of the original.
///
/// It takes over project, workspace, directory, the metadata as a copy of its own, and the title
/// with a number. It does not take over parent, agent, model, rules, share, revert or summary; its
/// usage is counted from the parts it copies.
#[must_use]
pub fn fork_session(original: &Session, fork: NewFork) -> Session {
    Session {
        id: fork.id,
        slug: fork.slug,
        project: original.project.clone(),
        workspace: original.workspace.clone(),
        directory: original.directory.clone(),
        path: original.path.clone(),
        parent: None,
        origin: Some(fork.origin),
        summary: None,
        share: None,
        title: fork_title(&original.title),
        agent: None,
        model: None,
        version: fork.version,
        metadata: original.metadata.clone(),
        time: SessionTime {
            created: fork.now.0.into(),
            updated: fork.now.0.into(),
            compacting: None,
            archived: None,
            extra: Extra::new(),
        },
        permission: None,
        revert: None,
        usage_base: None,
        extra: Extra::new(),
    }
}
