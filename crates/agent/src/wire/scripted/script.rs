//! A script after it was read: what a scripted model answers, request by request.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{FinishReason, ModelError, ModelRequest, ModelUsage};
use turnstone_core::context::{AssistantContent, ModelMessage};

/// The key of the metadata that a scripted answer leaves in the conversation.
const METADATA_KEY: &str = "scripted";
/// The number of the answer, from one, below that key.
const TURN_KEY: &str = "turn";

/// All answers of a script.
#[derive(Debug)]
pub(super) struct Script {
    /// Answers to the user's session.
    pub(super) turns: Vec<ScriptedTurn>,
    /// Answers to the sessions of subagents.
    pub(super) subagent_turns: Option<Vec<ScriptedTurn>>,
    /// The answer to requests that offer no tools, such as those for titles and summaries.
    pub(super) without_tools: Option<ScriptedTurn>,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptedTurn {
    pub(super) steps: Vec<ScriptedStep>,
    /// The reason that the answer ends with; derived from its calls if the script names none.
    pub(super) finish: Option<FinishReason>,
    pub(super) usage: Option<ModelUsage>,
}

/// One event of an answer.
#[derive(Clone, Debug)]
pub(super) enum ScriptedStep {
    Text(ScriptedText),
    Reasoning(ScriptedText),
    Call { call: Option<String>, tool: String, arguments: ScriptedText },
    Error { error: ModelError, times: u64 },
    Pause(Duration),
    WaitForFile(PathBuf),
}

/// A text and how it is cut into deltas.
#[derive(Clone, Debug)]
pub(super) struct ScriptedText {
    pub(super) text: String,
    /// Characters of a delta; everything at once if absent.
    pub(super) delta_chars: Option<usize>,
    /// The wait after each delta.
    pub(super) delta_pause: Duration,
}

/// Which answer of a script a request gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenTurn<'s> {
    pub(super) turn: &'s ScriptedTurn,
    /// The number that the answer leaves in the conversation.
    pub(super) number: u64,
}

impl Script {
    /// Chooses the answer to `request`, or says how many answers the script has.
    ///
    /// The position comes from the conversation alone, so it survives restarts, forks and undo:
    /// each answer leaves its number as metadata, which returns only to the model that gave it.
    pub(super) fn choose(&self, request: &ModelRequest) -> Result<ChosenTurn<'_>, usize> {
        let number = last_turn_number(&request.messages);
        if let (true, Some(turn)) = (request.tools.is_empty(), &self.without_tools) {
            return Ok(ChosenTurn { turn, number });
        }
        let turns = match (&request.parent, &self.subagent_turns) {
            (Some(_), Some(turns)) => turns,
            (_, _) => &self.turns,
        };
        let turn = usize::try_from(number).ok().and_then(|index| turns.get(index));
        turn.map(|turn| ChosenTurn { turn, number: number + 1 }).ok_or(turns.len())
    }
}

/// Returns the metadata by which an answer is found again.
pub(super) fn turn_metadata(number: u64) -> Value {
    json!({ METADATA_KEY: { TURN_KEY: number } })
}

/// Returns the number of the newest scripted answer in a conversation; zero without one.
fn last_turn_number(messages: &[ModelMessage]) -> u64 {
    let said = messages.iter().filter_map(|message| match message {
        ModelMessage::Assistant(content) => Some(content),
        ModelMessage::User(_) | ModelMessage::Tool(_) => None,
    });
    let numbers = said.flatten().filter_map(|content| match content {
        AssistantContent::Text { metadata, .. }
        | AssistantContent::Reasoning { metadata, .. }
        | AssistantContent::ToolCall { metadata, .. } => {
            metadata.as_ref()?.get(METADATA_KEY)?.get(TURN_KEY)?.as_u64()
        }
    });
    numbers.max().unwrap_or(0)
}
