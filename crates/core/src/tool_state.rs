//! The state machine of a tool call: which state may follow which, and how an open call is closed.
//!
//! Owns the phases of [`ToolState`] and the table between them. Knows no tool and runs none.
//!
//! A first state may be any: subtasks and shells begin in `running`, imported calls come complete.
//! Completion follows `running` only, as OpenCode accepts it: a provider that runs a tool itself
//! also reports the call before its result, so `pending → completed` is a lost step, not a
//! shortcut. Failure may follow `pending`, because a call is closed in any state when its turn ends.
//! A closed call never changes, except that pruning sets `time.compacted` on a completed one.

use serde_json::{Map, Number, Value};

use crate::model::{ExtraFields, ToolState, ToolTime};
use crate::time::EpochMillis;
use crate::transition_table::{RepeatEffect, TransitionRow};

/// How far a tool call got, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolPhase {
    /// The model is still writing the input.
    Pending,
    /// The tool runs.
    Running,
    /// The tool ended well.
    Completed,
    /// The tool failed or was interrupted.
    Error,
}

/// How a state follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolTransition {
    /// There was none before.
    First,
    /// It differs from the one before.
    Moved,
    /// It equals the one before: a repeat, nothing to write.
    Same,
}

/// A state that may not follow the one before; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {from} tool call cannot become {to}: {why}", from = from.as_str(), to = to.as_str())]
pub struct IllegalToolTransition {
    /// The phase the call is in.
    pub from: ToolPhase,
    /// The phase that was refused.
    pub to: ToolPhase,
    /// Which rule refused it.
    pub why: &'static str,
}

impl ToolPhase {
    /// Every phase.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Completed, Self::Error];

    /// The word in the `status` field.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
        }
    }

    /// The phase with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }

    /// True until the call has ended.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

impl std::fmt::Display for ToolPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ToolState {
    /// How far the call got.
    #[must_use]
    pub const fn phase(&self) -> ToolPhase {
        match self {
            Self::Pending { .. } => ToolPhase::Pending,
            Self::Running { .. } => ToolPhase::Running,
            Self::Completed { .. } => ToolPhase::Completed,
            Self::Error { .. } => ToolPhase::Error,
        }
    }
}

/// Decides whether `to` may follow `from`, the stored state, or none.
///
/// # Errors
///
/// [`IllegalToolTransition`] for every transition that is not in the table.
pub fn check_transition(
    from: Option<&ToolState>,
    to: &ToolState,
) -> Result<ToolTransition, IllegalToolTransition> {
    let Some(from) = from else {
        return Ok(ToolTransition::First);
    };
    if from == to {
        return Ok(ToolTransition::Same);
    }
    let (before, after) = (from.phase(), to.phase());
    let refused = |why| Err(IllegalToolTransition { from: before, to: after, why });
    match (before, after) {
        (ToolPhase::Pending, ToolPhase::Pending | ToolPhase::Running | ToolPhase::Error)
        | (ToolPhase::Running, ToolPhase::Running | ToolPhase::Completed | ToolPhase::Error) => {
            Ok(ToolTransition::Moved)
        }
        (ToolPhase::Completed, ToolPhase::Completed) if is_prune(from, to) => {
            Ok(ToolTransition::Moved)
        }
        (ToolPhase::Pending, ToolPhase::Completed) => refused("it never ran"),
        (ToolPhase::Running, ToolPhase::Pending) => refused("it runs already"),
        (ToolPhase::Completed, ToolPhase::Completed) => refused("only time.compacted may be set"),
        // All other transitions are refused.
        (ToolPhase::Completed | ToolPhase::Error, _) => refused("it has ended"),
    }
}

/// True if the only difference is that `time.compacted` was set or changed; it is never removed.
fn is_prune(from: &ToolState, to: &ToolState) -> bool {
    let ToolState::Completed { time: ToolTime { compacted: Some(mark), .. }, .. } = to else {
        return false;
    };
    let mut marked = from.clone();
    if let ToolState::Completed { time, .. } = &mut marked {
        time.compacted = Some(mark.clone());
    }
    marked == *to
}

/// Returns what an open call becomes when its turn ends without it; `None` for a closed one.
///
/// The input, the metadata and the start are kept; `interrupted: true` joins the metadata. A call
/// that was still pending has no start: it starts and ends `now`.
#[must_use]
pub fn interrupt_call(state: &ToolState, reason: &str, now: EpochMillis) -> Option<ToolState> {
    let (input, metadata, time, extra) = match state {
        ToolState::Pending { input, extra, .. } => {
            let start = Number::from(now.0);
            let time = ToolTime { start, end: None, compacted: None, extra: ExtraFields::new() };
            (input, None, time, extra)
        }
        ToolState::Running { input, metadata, time, extra, .. } => {
            (input, metadata.as_ref(), time.clone(), extra)
        }
        ToolState::Completed { .. } | ToolState::Error { .. } => return None,
    };
    Some(ToolState::Error {
        input: input.clone(),
        error: reason.to_owned(),
        metadata: Some(interrupted_metadata(metadata)),
        time: ToolTime { end: Some(Number::from(now.0)), ..time },
        extra: extra.clone(),
    })
}

/// True for what [`interrupt_call`] makes of an open call.
#[must_use]
pub fn is_interrupted(state: &ToolState) -> bool {
    let ToolState::Error { metadata: Some(metadata), .. } = state else { return false };
    metadata.get("interrupted") == Some(&Value::Bool(true))
}

/// The metadata of an interrupted call; a value that is not an object is stored under `value`.
fn interrupted_metadata(metadata: Option<&Value>) -> Value {
    let mut map = match metadata {
        Some(Value::Object(map)) => map.clone(),
        None | Some(Value::Null) => Map::new(),
        Some(other) => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    map.insert("interrupted".to_owned(), Value::Bool(true));
    Value::Object(map)
}

/// The table of the machine, found by running it over a sample of every phase.
#[must_use]
pub fn transition_table() -> Vec<TransitionRow> {
    let pruned = ("pruned", ToolPhase::Completed, sample_state(ToolPhase::Completed, 1, true));
    let written =
        ToolPhase::ALL.map(|phase| (phase.as_str(), phase, sample_state(phase, 1, false)));
    written
        .into_iter()
        .chain([pruned])
        .map(|(event, to, state)| transition_row(event, to, &state))
        .collect()
}

fn transition_row(event: &str, to: ToolPhase, state: &ToolState) -> TransitionRow {
    let pruned = matches!(state, ToolState::Completed { time, .. } if time.compacted.is_some());
    // A pruned call differs from the stored one in nothing else, a written one in its input.
    let stored = |phase| Some(sample_state(phase, i64::from(pruned), false));
    let none = [("none", None)];
    let (mut from, mut refused) = (Vec::new(), Vec::new());
    for (name, before) in
        none.into_iter().chain(ToolPhase::ALL.map(|phase| (phase.as_str(), stored(phase))))
    {
        match check_transition(before.as_ref(), state) {
            Ok(_) => from.push(name),
            Err(_) => refused.push(name),
        }
    }
    let repeat = match check_transition(Some(state), state) {
        Ok(ToolTransition::Same) => RepeatEffect::NoChange,
        Ok(ToolTransition::First | ToolTransition::Moved) => RepeatEffect::Moves,
        Err(_) => RepeatEffect::Refused,
    };
    let writes = match to {
        _ if pruned => "part (its output stays stored), event `message.part.updated`",
        ToolPhase::Pending | ToolPhase::Running => "part, event `message.part.updated`",
        ToolPhase::Completed | ToolPhase::Error => {
            "part with its output and end, event `message.part.updated`"
        }
    };
    TransitionRow { event: event.to_owned(), from, to: to.as_str(), refused, writes, repeat }
}

/// A state of a phase; two samples with different numbers differ in their input.
fn sample_state(phase: ToolPhase, number: i64, compacted: bool) -> ToolState {
    let input = serde_json::json!({ "n": number });
    let extra = ExtraFields::new;
    let at = |end: Option<i64>| ToolTime {
        start: Number::from(1),
        end: end.map(Number::from),
        compacted: compacted.then(|| Number::from(3)),
        extra: extra(),
    };
    match phase {
        ToolPhase::Pending => ToolState::Pending { input, raw: String::new(), extra: extra() },
        ToolPhase::Running => ToolState::Running {
            input,
            title: None,
            metadata: None,
            time: at(None),
            extra: extra(),
        },
        ToolPhase::Completed => ToolState::Completed {
            input,
            output: String::new(),
            title: String::new(),
            metadata: Value::Object(Map::new()),
            time: at(Some(2)),
            attachments: None,
            extra: extra(),
        },
        ToolPhase::Error => ToolState::Error {
            input,
            error: String::new(),
            metadata: None,
            time: at(Some(2)),
            extra: extra(),
        },
    }
}
