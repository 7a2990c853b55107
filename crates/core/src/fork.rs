//! Forks: a copy of a conversation up to a point, under new ids.
//!
//! Owns what is copied and what is renamed. New ids come from the caller. Which
//! captures a fork holds is not decided here (R40).

use std::collections::HashMap;

use crate::id::{MessageId, PartId, SessionId};
use crate::model::{ExtraFields, ForkOrigin, Message, MessageBody, PartBody, Session, SessionTime};
use crate::session_naming::fork_title;
use crate::time::EpochMillis;

/// A message, and its parts in order: the id of each, and its body in any representation.
pub type CopiedMessage<P> = (Message, Vec<(PartId, P)>);

/// What a fork consists of; nothing has been written.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkPlan<P> {
    /// The copied messages with their parts, in the order of the original.
    pub messages: Vec<CopiedMessage<P>>,
    /// Which message became which, in the same order.
    pub renamed: Vec<(MessageId, MessageId)>,
    /// Which part became which, in the same order.
    pub parts: Vec<(PartId, PartId)>,
}

/// New ids of copied messages.
#[derive(Debug)]
pub struct RenamedMessages<'a>(HashMap<&'a MessageId, &'a MessageId>);

/// Why a fork was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// The message to fork at is not part of the conversation.
    #[error("message {0} is not part of the session")]
    NoSuchMessage(MessageId),
}

/// Plans a copy of the messages before `at`, or of all, into the session `into`.
///
/// `messages` are in stream order, and the cut is made by position: ids are never compared (they
/// wrap). Every message and part gets a new id. An answer's parent follows its message; one that was
/// not copied stays as it is. `rename` does the same inside of the parts: [`rename_references`] says how. All
/// else is copied as it is: times, tokens, cost, errors, snapshots, and the ids inside attachments.
///
/// # Errors
///
/// [`ForkError::NoSuchMessage`] if `at` is unknown (OpenCode copies everything then, which turns a
/// mistake into a fork of the wrong length), and errors of `rename`.
pub fn plan_fork<P, E: From<ForkError>>(
    mut messages: Vec<CopiedMessage<P>>,
    at: Option<&MessageId>,
    into: &SessionId,
    mut new_message: impl FnMut() -> MessageId,
    mut new_part: impl FnMut() -> PartId,
    rename: impl Fn(P, &RenamedMessages<'_>) -> Result<P, E>,
) -> Result<ForkPlan<P>, E> {
    if let Some(id) = at {
        let end = messages.iter().position(|(message, _)| message.id == *id);
        messages.truncate(end.ok_or_else(|| ForkError::NoSuchMessage(id.clone()))?);
    }
    let renamed: Vec<(MessageId, MessageId)> =
        messages.iter().map(|(message, _)| (message.id.clone(), new_message())).collect();
    let names = RenamedMessages(renamed.iter().map(|(old, new)| (old, new)).collect());
    let mut parts = Vec::new();
    let mut copies = Vec::with_capacity(messages.len());
    for ((mut message, said), (_, id)) in messages.into_iter().zip(&renamed) {
        message.id = id.clone();
        message.session = into.clone();
        if let MessageBody::Assistant(answer) = &mut message.body
            && let Some(parent) = names.0.get(&answer.parent)
        {
            answer.parent = (*parent).clone();
        }
        let said = said.into_iter().map(|(old, body)| {
            let new = new_part();
            parts.push((old, new.clone()));
            Ok((new, rename(body, &names)?))
        });
        copies.push((message, said.collect::<Result<_, E>>()?));
    }
    Ok(ForkPlan { messages: copies, renamed, parts })
}

/// The body of a part in a copy: a compaction's tail follows its messages, and is dropped if they were
/// not copied.
#[must_use]
pub fn rename_references(mut body: PartBody, names: &RenamedMessages<'_>) -> PartBody {
    if let PartBody::Compaction(compaction) = &mut body {
        let tail = compaction.tail_start.take();
        compaction.tail_start = tail.and_then(|tail| names.0.get(&tail).map(|new| (*new).clone()));
    }
    body
}

/// Attributes of a forked session that are not copied.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Its id.
    pub id: SessionId,
    /// Its slug.
    pub slug: String,
    /// Version of the program that creates it.
    pub version: String,
    /// Time of creation.
    pub now: EpochMillis,
    /// Origin of the fork (R40).
    pub origin: ForkOrigin,
}

/// The session of a fork: a root session in the place of the original.
///
/// It copies project, workspace, directory and metadata, and the title with a number added. It does
/// not copy parent, agent, model, rules, share, revert or summary; its
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
            extra: ExtraFields::new(),
        },
        permission: None,
        imported_permission: Vec::new(),
        revert: None,
        usage_base: None,
        extra: ExtraFields::new(),
    }
}
