//! Order of prompts from the inbox: where they were promoted, not where they were stored.

use super::ContextMessage;
use crate::id::MessageId;

/// Position at which a prompt from the inbox was promoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotedPrompt {
    /// The prompt.
    pub message: MessageId,
    /// The newest message at that moment, prompts of the inbox apart; none if there was none.
    pub after: Option<MessageId>,
}

/// Puts prompts of the inbox, given in the order of promotion, at the position of their promotion.
///
/// All other messages keep the order of the stream. A prompt that was promoted before the first
/// message given is omitted.
#[must_use]
pub fn place_promoted_prompts(
    messages: Vec<ContextMessage>,
    taken: &[PromotedPrompt],
) -> Vec<ContextMessage> {
    let is_taken = |entry: &ContextMessage| taken.iter().any(|one| one.message == entry.0.id);
    let (mut prompts, stream): (Vec<ContextMessage>, Vec<ContextMessage>) =
        messages.into_iter().partition(is_taken);
    let mut placed = Vec::with_capacity(prompts.len() + stream.len());
    let mut place = |after: Option<&MessageId>, placed: &mut Vec<ContextMessage>| {
        for one in taken.iter().filter(|one| one.after.as_ref() == after) {
            if let Some(at) = prompts.iter().position(|entry| entry.0.id == one.message) {
                placed.push(prompts.remove(at));
            }
        }
    };
    place(None, &mut placed);
    for entry in stream {
        let id = entry.0.id.clone();
        placed.push(entry);
        place(Some(&id), &mut placed);
    }
    placed
}
