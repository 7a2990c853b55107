//! Reads the file of a script and names the turn and event of a mistake.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::script::{Script, ScriptedStep, ScriptedText, ScriptedTurn};
use crate::model::{FinishReason, ModelError, ModelErrorKind, ModelUsage};

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The text is no JSON, or neither a list of turns nor an object with `turns`.
    #[error("the script is not readable: {0}")]
    Format(#[from] serde_json::Error),
    /// An event is wrong.
    #[error("{list}, turn {turn}, event {event}: {problem}")]
    Event {
        /// The list of turns.
        list: &'static str,
        /// The turn, from one.
        turn: usize,
        /// The event of the turn, from one.
        event: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing to answer with.
    #[error("the script has no turns")]
    Empty,
}

/// The object form of a script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptObject {
    turns: Vec<Vec<Value>>,
    subagent_turns: Option<Vec<Vec<Value>>>,
    without_tools: Option<Vec<Value>>,
}

/// One event as it is written: exactly one of the kinds, and the fields that go with it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptEntry {
    text: Option<String>,
    reasoning: Option<String>,
    tool: Option<String>,
    error: Option<ScriptEntryError>,
    pause: Option<u64>,
    wait_for_file: Option<PathBuf>,
    finish: Option<String>,
    usage: Option<ScriptEntryUsage>,

    delta_chars: Option<usize>,
    delta_pause: Option<u64>,
    input: Option<Value>,
    arguments: Option<String>,
    call: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptEntryError {
    message: String,
    #[serde(default = "default_error_kind")]
    kind: String,
    status: Option<u16>,
    retry_after: Option<u64>,
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct ScriptEntryUsage {
    input: u64,
    output: u64,
    reasoning: u64,
    cache_read: u64,
    cache_write: u64,
    cost: Option<f64>,
}

fn default_error_kind() -> String {
    "retryable".to_owned()
}

impl Script {
    /// Reads a script: a list of turns, or an object with `turns`.
    pub(super) fn from_json(text: &str) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(text)?;
        let script = if value.is_array() {
            let turns = serde_json::from_value(value)?;
            ScriptObject { turns, subagent_turns: None, without_tools: None }
        } else {
            serde_json::from_value(value)?
        };
        if script.turns.is_empty() {
            return Err(ScriptError::Empty);
        }
        let turns = read_turns("turns", script.turns)?;
        let subagent_turns =
            script.subagent_turns.map(|turns| read_turns("subagent_turns", turns)).transpose()?;
        let without_tools = script
            .without_tools
            .map(|entries| read_turn("without_tools", 1, entries))
            .transpose()?;
        Ok(Self { turns, subagent_turns, without_tools })
    }
}

fn read_turns(
    list: &'static str,
    turns: Vec<Vec<Value>>,
) -> Result<Vec<ScriptedTurn>, ScriptError> {
    let numbered = turns.into_iter().enumerate();
    numbered.map(|(index, entries)| read_turn(list, index + 1, entries)).collect()
}

fn read_turn(
    list: &'static str,
    turn: usize,
    entries: Vec<Value>,
) -> Result<ScriptedTurn, ScriptError> {
    let mut read = ScriptedTurn::default();
    for (index, entry) in entries.into_iter().enumerate() {
        let is_read = serde_json::from_value(entry)
            .map_err(|error| error.to_string())
            .and_then(|entry| add_entry(&mut read, entry));
        is_read.map_err(|problem| ScriptError::Event { list, turn, event: index + 1, problem })?;
    }
    Ok(read)
}

/// Adds one event to a turn.
fn add_entry(turn: &mut ScriptedTurn, mut entry: ScriptEntry) -> Result<(), String> {
    check_fields(&entry)?;
    let (delta_chars, delta_pause) = (entry.delta_chars, entry.delta_pause.unwrap_or(0));
    let cut =
        |text| ScriptedText { text, delta_chars, delta_pause: Duration::from_millis(delta_pause) };
    if let Some(text) = entry.text.take() {
        turn.steps.push(ScriptedStep::Text(cut(text)));
    } else if let Some(text) = entry.reasoning.take() {
        turn.steps.push(ScriptedStep::Reasoning(cut(text)));
    } else if let Some(tool) = entry.tool.take() {
        let arguments = match (entry.arguments.take(), entry.input.take()) {
            (Some(raw), None) => raw,
            (None, Some(input)) => input.to_string(),
            (None, None) => "{}".to_owned(),
            (Some(_), Some(_)) => return Err("`input` and `arguments` exclude each other".into()),
        };
        let call = entry.call.take();
        turn.steps.push(ScriptedStep::Call { call, tool, arguments: cut(arguments) });
    } else if let Some(error) = entry.error.take() {
        turn.steps.push(read_error(error)?);
    } else if let Some(time) = entry.pause {
        turn.steps.push(ScriptedStep::Pause(Duration::from_millis(time)));
    } else if let Some(path) = entry.wait_for_file.take() {
        turn.steps.push(ScriptedStep::WaitForFile(path));
    } else if let Some(reason) = &entry.finish {
        turn.finish = Some(read_finish(reason)?);
    } else if let Some(usage) = entry.usage {
        turn.usage = Some(read_usage(&usage));
    }
    Ok(())
}

/// Checks that an event has one kind and only the fields of that kind.
fn check_fields(entry: &ScriptEntry) -> Result<(), String> {
    let is_text = entry.text.is_some() || entry.reasoning.is_some();
    let is_call = entry.tool.is_some();
    let kinds = [
        is_text && entry.text.is_some(),
        entry.reasoning.is_some(),
        is_call,
        entry.error.is_some(),
        entry.pause.is_some(),
        entry.wait_for_file.is_some(),
        entry.finish.is_some(),
        entry.usage.is_some(),
    ];
    if kinds.iter().filter(|is_there| **is_there).count() != 1 {
        return Err("an event has exactly one of `text`, `reasoning`, `tool`, `error`, `pause`, \
                    `wait_for_file`, `finish` and `usage`"
            .to_owned());
    }
    if entry.delta_chars == Some(0) {
        return Err("`delta_chars` is at least 1".to_owned());
    }
    let is_streamed = is_text || is_call;
    if !is_streamed && (entry.delta_chars.is_some() || entry.delta_pause.is_some()) {
        return Err("`delta_chars` and `delta_pause` need a text, a reasoning or a tool".to_owned());
    }
    if !is_call && (entry.input.is_some() || entry.arguments.is_some() || entry.call.is_some()) {
        return Err("`input`, `arguments` and `call` need a tool".to_owned());
    }
    Ok(())
}

fn read_error(entry: ScriptEntryError) -> Result<ScriptedStep, String> {
    let kind = match entry.kind.as_str() {
        "retryable" => ModelErrorKind::Retryable,
        "context-overflow" => ModelErrorKind::ContextOverflow,
        "authentication" => ModelErrorKind::Authentication,
        "rejected" => ModelErrorKind::Rejected,
        other => return Err(format!("the kind of error `{other}` is not known")),
    };
    let mut error = ModelError::new(kind, entry.message);
    error.status = entry.status;
    error.retry_after = entry.retry_after.map(Duration::from_millis);
    Ok(ScriptedStep::Error { error, times: entry.times.unwrap_or(1) })
}

fn read_finish(reason: &str) -> Result<FinishReason, String> {
    let known = [
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::ToolCalls,
        FinishReason::ContentFilter,
        FinishReason::Unknown,
    ];
    let found = known.into_iter().find(|known| known.as_str() == reason);
    found.ok_or_else(|| format!("the finish reason `{reason}` is not known"))
}

fn read_usage(entry: &ScriptEntryUsage) -> ModelUsage {
    ModelUsage {
        input: entry.input,
        output: entry.output,
        reasoning: entry.reasoning,
        cache_read: entry.cache_read,
        cache_write: entry.cache_write,
        cost: entry.cost,
    }
}
