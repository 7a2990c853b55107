//! Events as lines of JSON, in the form of `opencode run --format json`.

use serde_json::{Map, Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{MessageFailure, Part, PartBody, ToolState};
use turnstone_core::time::EpochMillis;
use turnstone_core::wire;

/// Returns the event that a part is for readers: each once it is complete.
pub(super) fn part_event(part: &Part, shows_reasoning: bool) -> Option<(&'static str, Value)> {
    let kind = match &part.body {
        PartBody::Text(text) if text.time.as_ref().is_some_and(|time| time.end.is_some()) => "text",
        PartBody::Reasoning(reasoning) if shows_reasoning && reasoning.time.end.is_some() => {
            "reasoning"
        }
        PartBody::Tool(tool) => match &tool.state {
            ToolState::Completed { .. } | ToolState::Error { .. } => "tool_use",
            ToolState::Pending { .. } | ToolState::Running { .. } => return None,
        },
        PartBody::StepStart(_) => "step_start",
        PartBody::StepFinish(_) => "step_finish",
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::File(_)
        | PartBody::Agent(_)
        | PartBody::Snapshot(_)
        | PartBody::Patch(_)
        | PartBody::Subtask(_)
        | PartBody::Retry(_)
        | PartBody::Compaction(_)
        | PartBody::Opaque(_) => return None,
    };
    Some((kind, wire::part_info(part)))
}

/// Returns the line of an event about a part.
pub(super) fn part_line(kind: &str, part: Value, session: &SessionId, now: EpochMillis) -> Value {
    event_line(kind, session, now, ("part", part))
}

/// Returns the line of a failure.
pub(super) fn failure_line(
    failure: &MessageFailure,
    session: &SessionId,
    now: EpochMillis,
) -> Value {
    event_line("error", session, now, ("error", json!(failure)))
}

fn event_line(
    kind: &str,
    session: &SessionId,
    now: EpochMillis,
    (key, value): (&str, Value),
) -> Value {
    let mut line = Map::new();
    line.insert("type".to_owned(), json!(kind));
    line.insert("timestamp".to_owned(), json!(now.0));
    line.insert("sessionID".to_owned(), json!(session));
    line.insert(key.to_owned(), value);
    Value::Object(line)
}
