//! Prompts that came while a turn ran are read where they were taken up, not where they were stored.

use super::Entry;
use crate::model::MessageBody;

/// Puts prompts behind the answers that were still being written when they came.
///
/// Messages come and go in stream order otherwise. A prompt stands before the first answer to it;
/// one that nobody has answered yet stands behind every answer to an earlier one, so that it is
/// what a model reads last.
#[must_use]
pub fn order_prompts(messages: Vec<Entry>) -> Vec<Entry> {
    let mut ordered = Vec::with_capacity(messages.len());
    let mut waiting: Vec<Entry> = Vec::new();
    for entry in messages {
        let MessageBody::Assistant(said) = &entry.0.body else {
            waiting.push(entry);
            continue;
        };
        let answered = waiting.iter().position(|(message, _)| message.id == said.parent);
        let upto = answered.map_or(0, |at| at + 1);
        ordered.extend(waiting.drain(..upto));
        ordered.push(entry);
    }
    ordered.extend(waiting);
    ordered
}
