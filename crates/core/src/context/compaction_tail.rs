//! Which end of a conversation a compaction keeps as it is.

use super::compaction_filter::compaction_request;
use super::{CompactionSettings, ContextMessage, ModelLimits, usable_tokens};
use crate::id::MessageId;
use crate::model::MessageBody;

/// The fewest tokens the kept turns may take, unless configured.
const MIN_TAIL_TOKENS: u64 = 2_000;
/// The most tokens the kept turns may take, unless configured.
const MAX_TAIL_TOKENS: u64 = 15_000;

/// Where the kept end of a conversation begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextTail {
    /// The position of its first message; what is before it is summarised.
    pub start: usize,
    /// The first message: `tail_start_id` of the compaction.
    pub id: MessageId,
}

/// How many tokens the kept turns may take: configured, or a quarter of what is usable, in bounds.
#[must_use]
pub fn tail_budget(limits: ModelLimits, settings: &CompactionSettings) -> u64 {
    let quarter = || (usable_tokens(limits, settings) / 4).clamp(MIN_TAIL_TOKENS, MAX_TAIL_TOKENS);
    settings.preserve_recent_tokens.unwrap_or_else(quarter)
}

/// Chooses the turns at the end of `messages` that stay as they are, newest first, while they fit
/// into `budget`.
///
/// A turn begins at a user message that asks for no compaction. The first turn that does not fit
/// may be cut: it is kept from the earliest later message that fits. `None` if nothing fits, if the
/// tail would be the whole conversation, or if `tail_turns` is 0. `size` tells what messages take
/// as a model gets them; it is asked for no more than is kept and the turn before.
#[must_use]
pub fn select_tail(
    messages: &[ContextMessage],
    settings: &CompactionSettings,
    budget: u64,
    mut size: impl FnMut(&[ContextMessage]) -> u64,
) -> Option<ContextTail> {
    let starts: Vec<usize> = (0..messages.len()).filter(|at| begins_turn(messages, *at)).collect();
    let limit = settings.tail_turns.unwrap_or(usize::MAX);
    let (mut left, mut end, mut start) = (budget, messages.len(), None);
    for &turn in starts.iter().rev().take(limit) {
        let needed = size(messages.get(turn..end)?);
        match left.checked_sub(needed) {
            Some(rest) => left = rest,
            None => {
                let fits = |at: &usize| messages.get(*at..end).is_some_and(|cut| size(cut) <= left);
                start = if left > 0 { (turn + 1..end).find(fits).or(start) } else { start };
                break;
            }
        }
        (start, end) = (Some(turn), turn);
    }
    let start = start.filter(|start| *start > 0)?;
    let (message, _) = messages.get(start)?;
    Some(ContextTail { start, id: message.id.clone() })
}

/// Chooses the user message that is asked again after an overflowing context was compacted.
///
/// It is the nearest turn before the request at `parent`; it and what follows stay out of the
/// summary. `None` if no earlier turn would be left to summarise.
#[must_use]
pub fn find_replay_point(messages: &[ContextMessage], parent: usize) -> Option<usize> {
    let mut turns = (0..parent.min(messages.len())).rev().filter(|at| begins_turn(messages, *at));
    let nearest = turns.next()?;
    turns.next().map(|_| nearest)
}

fn begins_turn(messages: &[ContextMessage], at: usize) -> bool {
    messages.get(at).is_some_and(|(message, parts)| {
        matches!(message.body, MessageBody::User(_)) && compaction_request(message, parts).is_none()
    })
}
