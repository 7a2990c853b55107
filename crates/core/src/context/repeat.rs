//! A model that goes round in circles: the same call, again and again.

use super::Entry;
use crate::model::{PartBody, Tool};
use crate::tool::Phase;

/// So many equal calls in a row are a loop.
const IN_A_ROW: usize = 3;

/// The tool that was called with the same input three times in a row at the end of `messages`.
///
/// Calls are counted over all messages given, those of one turn: every step is a message of its own.
/// A call whose input is still being written does not count. Another call in between ends the row;
/// text does not.
#[must_use]
pub fn find_repeat(messages: &[Entry]) -> Option<&str> {
    let parts = messages.iter().rev().flat_map(|(_, parts)| parts.iter().rev());
    let calls: Vec<&Tool> = parts
        .filter_map(|part| if let PartBody::Tool(tool) = &part.body { Some(&**tool) } else { None })
        .filter(|tool| tool.state.phase() != Phase::Pending)
        .take(IN_A_ROW)
        .collect();
    let (newest, rest) = calls.split_first()?;
    let is_same = |tool: &&&Tool| tool.tool == newest.tool && tool.input() == newest.input();
    let equal = rest.iter().filter(is_same).count();
    (equal == IN_A_ROW - 1).then_some(newest.tool.as_str())
}
