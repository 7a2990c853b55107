//! Messages of users and agents, without their parts.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::{ExtraFields, MessageFailure, SessionFileDiff};
use crate::id::{MessageId, SessionId};

/// One message of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Names the message.
    pub id: MessageId,
    /// The session it belongs to.
    pub session: SessionId,
    /// Content.
    pub body: MessageBody,
}

/// The two kinds of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "half of all messages are of this kind")]
pub enum MessageBody {
    /// Written by a person, or on their behalf.
    User(UserMessage),
    /// Written by a model.
    Assistant(Box<AssistantMessage>),
}

impl MessageBody {
    /// `user` or `assistant`.
    #[must_use]
    pub const fn role(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
        }
    }

    /// When the message was created.
    #[must_use]
    pub fn created(&self) -> &Number {
        match self {
            Self::User(user) => &user.time.created,
            Self::Assistant(assistant) => &assistant.time.created,
        }
    }
}

/// A message of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// When it was written; may be fractional.
    pub time: UserTime,
    /// The wanted form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Value>,
    /// Title, body and diffs of the turn, written afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<UserSummary>,
    /// The agent that is to answer.
    pub agent: String,
    /// The model that is to answer.
    pub model: ModelRef,
    /// Replaces the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools switched on or off for this prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<serde_json::Map<String, Value>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Timestamp of a user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserTime {
    /// When it was written.
    pub created: Number,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Summary of a turn, stored with the message that started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserSummary {
    /// A title for the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A summary of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// What the turn changed.
    #[serde(default)]
    pub diffs: Vec<SessionFileDiff>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The model of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRef {
    /// Provider.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// The model.
    #[serde(rename = "modelID")]
    pub model: String,
    /// Its variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A message of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// When it began and ended.
    pub time: AssistantTime,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageFailure>,
    /// The user message it answers.
    #[serde(rename = "parentID")]
    pub parent: MessageId,
    /// The model that wrote it.
    #[serde(rename = "modelID")]
    pub model: String,
    /// Provider of the model.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// An old copy of the agent's name.
    pub mode: String,
    /// The agent; absent in stores older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where the agent worked.
    pub path: MessagePath,
    /// True for a compaction's summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<bool>,
    /// The cost of all steps.
    pub cost: Number,
    /// The tokens of the last step.
    pub tokens: TokenCounts,
    /// A structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Timestamps of an assistant message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantTime {
    /// When it began.
    pub created: Number,
    /// When it ended, however it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Where an agent worked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePath {
    /// Its working directory.
    pub cwd: String,
    /// The root of the worktree.
    pub root: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Token counts of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Total, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Number>,
    /// Input tokens.
    pub input: Number,
    /// Output tokens.
    pub output: Number,
    /// Reasoning tokens.
    pub reasoning: Number,
    /// Cached tokens.
    pub cache: CacheTokenCounts,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Default for TokenCounts {
    fn default() -> Self {
        let zero = || Number::from(0);
        Self {
            total: None,
            input: zero(),
            output: zero(),
            reasoning: zero(),
            cache: CacheTokenCounts { read: zero(), write: zero(), extra: ExtraFields::new() },
            extra: ExtraFields::new(),
        }
    }
}

/// Cached token counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheTokenCounts {
    /// Read from the cache.
    pub read: Number,
    /// Written to the cache.
    pub write: Number,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}
