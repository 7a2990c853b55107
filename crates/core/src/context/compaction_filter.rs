//! Which messages a model still sees after compactions.

use std::collections::HashSet;

use crate::id::MessageId;
use crate::model::{AssistantMessage, CompactionPart, Message, MessageBody, Part, PartBody};

/// A message with its parts, in the order of the stream.
pub type ContextMessage = (Message, Vec<Part>);

/// A completed compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedCompaction {
    /// The position of the message that asked for it.
    pub request: usize,
    /// The position of its summary.
    pub summary: usize,
}

/// Reduces a conversation, given newest first, to what a model sees after its newest compaction.
///
/// A compaction counts once its summary has finished without an error. Without a tail the result
/// begins with its request. With one it is: the request, up to and with its summary; then the tail;
/// then what came after the summary. Such a result is not chronological. What is older is not
/// even read from the iterator.
///
/// Unlike OpenCode, a newer compaction whose summary failed moves nothing, even if it names a tail;
/// there it hides everything before that tail.
#[must_use]
pub fn filter_compacted(
    newest_first: impl IntoIterator<Item = ContextMessage>,
) -> Vec<ContextMessage> {
    let mut kept: Vec<ContextMessage> = Vec::new();
    let mut summarised: HashSet<MessageId> = HashSet::new();
    // The request of the compaction that cuts, counted from the newest, and where its tail begins.
    let mut cut: Option<(usize, MessageId)> = None;
    let mut tail_found = false;
    for (message, parts) in newest_first {
        let id = message.id.clone();
        let found =
            if summarised.contains(&id) { compaction_request(&message, &parts) } else { None };
        let tail = found.map(|compaction| compaction.tail_start.clone());
        if let Some(summary) = finished_summary(&message) {
            summarised.insert(summary.parent.clone());
        }
        kept.push((message, parts));
        match (&cut, tail) {
            (Some((_, start)), _) if *start == id => {
                tail_found = true;
                break;
            }
            (Some(_), _) | (None, None) => {}
            (None, Some(None)) => break,
            (None, Some(Some(start))) if start == id => break,
            (None, Some(Some(start))) => cut = Some((kept.len() - 1, start)),
        }
    }
    kept.reverse();
    if let (Some((from_newest, _)), true) = (cut, tail_found) {
        let at = kept.len() - 1 - from_newest;
        move_tail_after_summary(&mut kept, at);
    }
    kept
}

/// Moves the tail, which comes before the request at `at`, behind its summary.
fn move_tail_after_summary(kept: &mut [ContextMessage], at: usize) {
    let Some((request, rest)) = kept.get(at..).and_then(<[ContextMessage]>::split_first) else {
        return;
    };
    let is_summary = |(message, _): &ContextMessage| {
        finished_summary(message).is_some_and(|summary| summary.parent == request.0.id)
    };
    if let Some(offset) = rest.iter().position(is_summary) {
        // tail.. request.. summary | after  →  request.. summary, tail.. | after
        if let Some(moved) = kept.get_mut(..at + offset + 2) {
            moved.rotate_left(at);
        }
    }
}

/// Finds every completed compaction, in a conversation in stream order.
#[must_use]
pub fn completed_compactions(messages: &[ContextMessage]) -> Vec<CompletedCompaction> {
    let position = |id: &MessageId| {
        messages.iter().position(|(message, parts)| {
            message.id == *id && compaction_request(message, parts).is_some()
        })
    };
    let summaries = messages.iter().enumerate();
    summaries
        .filter_map(|(summary, (message, _))| {
            let request = position(&finished_summary(message)?.parent)?;
            Some(CompletedCompaction { request, summary })
        })
        .collect()
}

/// The compaction a user message asks for.
pub(super) fn compaction_request<'p>(
    message: &Message,
    parts: &'p [Part],
) -> Option<&'p CompactionPart> {
    match message.body {
        MessageBody::User(_) => parts.iter().find_map(|part| {
            if let PartBody::Compaction(compaction) = &part.body { Some(compaction) } else { None }
        }),
        MessageBody::Assistant(_) => None,
    }
}

/// The request whose compaction a message completes: it is a summary that finished without an error.
///
/// The event that makes it so is the one clients know as `session.compacted`; nothing else is stored.
#[must_use]
pub fn summarized_request(message: &Message) -> Option<&MessageId> {
    finished_summary(message).map(|summary| &summary.parent)
}

/// The message, if it is a summary that finished without an error.
fn finished_summary(message: &Message) -> Option<&AssistantMessage> {
    match &message.body {
        MessageBody::Assistant(said)
            if said.summary == Some(true) && said.finish.is_some() && said.error.is_none() =>
        {
            Some(said)
        }
        MessageBody::Assistant(_) | MessageBody::User(_) => None,
    }
}
