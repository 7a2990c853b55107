//! Parts: the pieces of a message, and the states of a tool call.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::{ExtraFields, MessageFailure, TokenCounts};
use crate::id::{MessageId, PartId, SessionId};

/// One part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Names the part.
    pub id: PartId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The message it belongs to.
    pub message: MessageId,
    /// What it is.
    pub body: PartBody,
}

/// Every kind of part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PartBody {
    /// Text of a person or a model.
    Text(TextPart),
    /// A model's reasoning.
    Reasoning(ReasoningPart),
    /// An attached file.
    File(FilePart),
    /// A mention of an agent.
    Agent(AgentPart),
    /// A tool call.
    Tool(Box<ToolPart>),
    /// A model call begins.
    StepStart(StepStartPart),
    /// A model call ended.
    StepFinish(StepFinishPart),
    /// A tree of the worktree; only in old stores.
    Snapshot(SnapshotPart),
    /// What a step changed.
    Patch(PatchPart),
    /// Work handed to a subagent.
    Subtask(SubtaskPart),
    /// A failed attempt; only in old stores.
    Retry(RetryPart),
    /// A request to compact the context.
    Compaction(CompactionPart),
    /// A kind this version does not know; it comes from imports only, see [`PartBody::parse_lenient`].
    #[serde(untagged)]
    Opaque(OpaquePart),
}

/// A part of an unknown kind, kept as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpaquePart(pub ExtraFields);

/// Written by hand because a derived one that knows an untagged variant forgets what was wrong.
impl<'de> Deserialize<'de> for PartBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse_typed(ExtraFields::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn parse_body<T: DeserializeOwned>(
    fields: ExtraFields,
    kind: impl FnOnce(T) -> PartBody,
) -> Result<PartBody, serde_json::Error> {
    serde_json::from_value(Value::Object(fields)).map(kind)
}

impl PartBody {
    /// Reads the fields by the type they name; says which type they do not fit.
    fn parse_typed(mut fields: ExtraFields) -> Result<Self, serde_json::Error> {
        let custom = <serde_json::Error as serde::de::Error>::custom::<String>;
        let Some(Value::String(name)) = fields.shift_remove("type") else {
            return Err(custom("a part needs a `type`".to_owned()));
        };
        let body = match name.as_str() {
            "text" => parse_body(fields, Self::Text),
            "reasoning" => parse_body(fields, Self::Reasoning),
            "file" => parse_body(fields, Self::File),
            "agent" => parse_body(fields, Self::Agent),
            "tool" => parse_body(fields, Self::Tool),
            "step-start" => parse_body(fields, Self::StepStart),
            "step-finish" => parse_body(fields, Self::StepFinish),
            "snapshot" => parse_body(fields, Self::Snapshot),
            "patch" => parse_body(fields, Self::Patch),
            "subtask" => parse_body(fields, Self::Subtask),
            "retry" => parse_body(fields, Self::Retry),
            "compaction" => parse_body(fields, Self::Compaction),
            _ => return Err(custom(format!("unknown part type {name:?}"))),
        };
        body.map_err(|error| custom(format!("{name} part: {error}")))
    }

    /// Reads a part body; one of an unknown type is kept as it came instead of being refused.
    ///
    /// # Errors
    ///
    /// A known type whose fields are wrong, or a value without a `type`.
    pub fn parse_lenient(value: Value) -> Result<Self, serde_json::Error> {
        let known = value.get("type").and_then(Value::as_str).map(is_known_type);
        match (known, value) {
            (Some(false), Value::Object(map)) => Ok(Self::Opaque(OpaquePart(map))),
            (_, Value::Object(map)) => Self::parse_typed(map),
            (_, value) => serde_json::from_value(value),
        }
    }

    /// The value of the `type` field.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning(_) => "reasoning",
            Self::File(_) => "file",
            Self::Agent(_) => "agent",
            Self::Tool(_) => "tool",
            Self::StepStart(_) => "step-start",
            Self::StepFinish(_) => "step-finish",
            Self::Snapshot(_) => "snapshot",
            Self::Patch(_) => "patch",
            Self::Subtask(_) => "subtask",
            Self::Retry(_) => "retry",
            Self::Compaction(_) => "compaction",
            Self::Opaque(part) => part.0.get("type").and_then(Value::as_str).unwrap_or("unknown"),
        }
    }
}

fn is_known_type(name: &str) -> bool {
    matches!(
        name,
        "text"
            | "reasoning"
            | "file"
            | "agent"
            | "tool"
            | "step-start"
            | "step-finish"
            | "snapshot"
            | "patch"
            | "subtask"
            | "retry"
            | "compaction"
    )
}

/// Text of a person or a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Written by the program, not by the user or the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<bool>,
    /// Not sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<bool>,
    /// When it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<PartTime>,
    /// What the provider added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A model's reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The text.
    pub text: String,
    /// What the provider added, such as signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// When it was written.
    pub time: PartTime,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A time span; open until it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartTime {
    /// Start.
    pub start: Number,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// An attached file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePart {
    /// Its media type.
    pub mime: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `data:`, `file:` or `http(s):`.
    pub url: String,
    /// Where in the prompt it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
    /// Fields this version does not know; for an attachment also its ids.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A mention of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The agent.
    pub name: String,
    /// Where in the prompt it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPart {
    /// The provider's name of the call.
    #[serde(rename = "callID")]
    pub call: String,
    /// The tool.
    pub tool: String,
    /// State of the call.
    pub state: ToolState,
    /// What the provider added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl ToolPart {
    /// The input of the call, as far as it is known.
    #[must_use]
    pub const fn input(&self) -> &Value {
        match &self.state {
            ToolState::Pending { input, .. }
            | ToolState::Running { input, .. }
            | ToolState::Completed { input, .. }
            | ToolState::Error { input, .. } => input,
        }
    }

    /// The exit code of a command that has ended.
    #[must_use]
    pub fn exit_code(&self) -> Option<i64> {
        self.state_metadata()?.get("exit")?.as_i64()
    }

    /// The signal that ended a command.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.state_metadata()?.get("signal")?.as_i64().and_then(|signal| signal.try_into().ok())
    }

    /// What the call returned; of a call that was interrupted, what it had returned by then.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        match &self.state {
            ToolState::Completed { output, .. } => Some(output),
            ToolState::Error { .. } => self.state_metadata()?.get("output")?.as_str(),
            ToolState::Pending { .. } | ToolState::Running { .. } => None,
        }
    }

    fn state_metadata(&self) -> Option<&Value> {
        match &self.state {
            ToolState::Completed { metadata, .. } => Some(metadata),
            ToolState::Error { metadata, .. } => metadata.as_ref(),
            ToolState::Pending { .. } | ToolState::Running { .. } => None,
        }
    }
}

/// State of a tool call. Which state may follow which is decided by [`crate::tool_state`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing the input.
    Pending {
        /// What of the input could be read.
        input: Value,
        /// The input as it was streamed.
        #[serde(default)]
        raw: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: ExtraFields,
    },
    /// The tool runs.
    Running {
        /// Its input.
        input: Value,
        /// Title while running.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Metadata while running.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
        /// When it began.
        time: ToolTime,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: ExtraFields,
    },
    /// The tool succeeded.
    Completed {
        /// Its input.
        input: Value,
        /// Its output.
        output: String,
        /// Title.
        title: String,
        /// Metadata.
        metadata: Value,
        /// When it began and ended.
        time: ToolTime,
        /// Files it returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachments: Option<Vec<Value>>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: ExtraFields,
    },
    /// The tool failed or was interrupted.
    Error {
        /// Its input.
        input: Value,
        /// What went wrong.
        error: String,
        /// Metadata up to then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
        /// When it began and ended.
        time: ToolTime,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: ExtraFields,
    },
}

/// Timestamps of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolTime {
    /// When it began.
    pub start: Number,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Number>,
    /// When its output was cleared from the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A model call begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepStartPart {
    /// The tree of the worktree at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A model call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFinishPart {
    /// Why the model stopped.
    pub reason: String,
    /// The tree of the worktree at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The cost of the step.
    pub cost: Number,
    /// The tokens of the step.
    pub tokens: TokenCounts,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A tree of the worktree; only in old stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotPart {
    /// The tree.
    pub snapshot: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// What a step changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatchPart {
    /// The tree before the step.
    pub hash: String,
    /// The changed files, absolute.
    pub files: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Work handed to a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtaskPart {
    /// The prompt.
    pub prompt: String,
    /// Description for people.
    pub description: String,
    /// The agent.
    pub agent: String,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
    /// The command it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A failed attempt; only in old stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPart {
    /// Which attempt.
    pub attempt: Number,
    /// What went wrong.
    pub error: MessageFailure,
    /// When.
    pub time: Value,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A request to compact the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionPart {
    /// Asked for by the program, not by a person.
    pub auto: bool,
    /// The context had overflowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<bool>,
    /// The first message kept as it is.
    #[serde(rename = "tail_start_id", default, skip_serializing_if = "Option::is_none")]
    pub tail_start: Option<MessageId>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}
