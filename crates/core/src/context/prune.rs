//! Which old tool outputs are cleared from a model's view.

use serde_json::Number;

use super::{ContextMessage, estimate_tokens};
use crate::id::PartId;
use crate::model::{MessageBody, PartBody, ToolState};
use crate::time::EpochMillis;

/// Tokens of the newest tool outputs that are never cleared.
const PROTECTED_TOKENS: u64 = 40_000;
/// Nothing is cleared for less than this.
const MIN_PRUNED_TOKENS: u64 = 20_000;
/// The newest turns, whose outputs are not looked at.
const PROTECTED_TURNS: usize = 2;
/// The tool whose output is never cleared.
const UNPRUNED_TOOL: &str = "skill";

/// Chooses the tool calls whose output is cleared from the context, newest first.
///
/// The newest two turns are passed over, then the newest 40,000 tokens of output are protected;
/// what is older goes, if it is more than 20,000 tokens in all. The search ends at a summary and at
/// the first call cleared before. The outputs themselves stay stored.
#[must_use]
pub fn select_outputs_to_prune(messages: &[ContextMessage]) -> Vec<PartId> {
    let (mut turns, mut seen, mut cleared) = (0, 0, 0);
    let mut chosen = Vec::new();
    'search: for (message, parts) in messages.iter().rev() {
        match &message.body {
            MessageBody::User(_) => turns += 1,
            MessageBody::Assistant(said)
                if turns >= PROTECTED_TURNS && said.summary == Some(true) =>
            {
                break;
            }
            MessageBody::Assistant(_) => {}
        }
        if turns < PROTECTED_TURNS {
            continue;
        }
        for part in parts.iter().rev() {
            let PartBody::Tool(tool) = &part.body else {
                continue;
            };
            let ToolState::Completed { output, time, .. } = &tool.state else {
                continue;
            };
            if tool.tool == UNPRUNED_TOOL {
                continue;
            }
            if time.compacted.is_some() {
                break 'search;
            }
            let size = estimate_tokens(output);
            seen += size;
            if seen > PROTECTED_TOKENS {
                cleared += size;
                chosen.push(part.id.clone());
            }
        }
    }
    if cleared > MIN_PRUNED_TOKENS { chosen } else { Vec::new() }
}

/// Returns a completed call marked as cleared at `now`; `None` for one that is not, or is already.
#[must_use]
pub fn mark_compacted(state: &ToolState, now: EpochMillis) -> Option<ToolState> {
    let mut marked = state.clone();
    let ToolState::Completed { time, .. } = &mut marked else {
        return None;
    };
    if time.compacted.is_some() {
        return None;
    }
    time.compacted = Some(Number::from(now.0));
    Some(marked)
}
