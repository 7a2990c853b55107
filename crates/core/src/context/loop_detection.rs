//! Detects a model that repeats the same call.

use super::ContextMessage;
use crate::model::{PartBody, ToolPart};
use crate::tool_state::ToolPhase;

/// Number of equal calls in a row that count as a loop.
const LOOP_LENGTH: usize = 3;

/// The tool that was called with the same input three times in a row at the end of `messages`.
///
/// Calls are counted over all messages given, those of one turn: every step is a separate message.
/// A call whose input is still being written does not count. Another call in between ends the row;
/// text does not.
#[must_use]
pub fn find_tool_loop(messages: &[ContextMessage]) -> Option<&str> {
    let parts = messages.iter().rev().flat_map(|(_, parts)| parts.iter().rev());
    let calls: Vec<&ToolPart> = parts
        .filter_map(|part| if let PartBody::Tool(tool) = &part.body { Some(&**tool) } else { None })
        .filter(|tool| tool.state.phase() != ToolPhase::Pending)
        .take(LOOP_LENGTH)
        .collect();
    let (newest, rest) = calls.split_first()?;
    let is_same = |tool: &&&ToolPart| tool.tool == newest.tool && tool.input() == newest.input();
    let equal = rest.iter().filter(is_same).count();
    (equal == LOOP_LENGTH - 1).then_some(newest.tool.as_str())
}
