//! What a turn asks a person: permissions and questions. They outlive the process that asked.

use serde::{Deserialize, Serialize};

use super::ExtraFields;
use crate::id::{MessageId, PermissionId, QuestionId, SessionId};

/// One request, open or answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserRequest {
    /// Names the request.
    pub id: RequestId,
    /// The session that asks.
    #[serde(rename = "sessionID")]
    pub session: SessionId,
    /// What is asked.
    pub body: RequestBody,
    /// Whether it was answered, and how.
    pub state: RequestState,
}

/// The id of a request; the two kinds have their own prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A permission request.
    Permission(PermissionId),
    /// A question.
    Question(QuestionId),
}

impl RequestId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Permission(id) => id.as_str(),
            Self::Question(id) => id.as_str(),
        }
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RequestBody {
    /// May a tool do this?
    Permission(PermissionAsk),
    /// Which of these?
    Question(QuestionAsk),
}

/// May a tool do this?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionAsk {
    /// The permission, e.g. `bash`.
    pub permission: String,
    /// What it is wanted for.
    pub patterns: Vec<String>,
    /// What the tool says about it.
    #[serde(default)]
    pub metadata: ExtraFields,
    /// What an answer of "always" would allow.
    #[serde(default)]
    pub always: Vec<String>,
    /// The call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCallRef>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Which of these?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsk {
    /// The questions, asked together.
    pub questions: Vec<Question>,
    /// The call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCallRef>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// A short label.
    pub header: String,
    /// The answers offered.
    pub options: Vec<QuestionOption>,
    /// More than one answer may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// A free answer is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// One answer offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The tool call that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRef {
    /// The message of the call.
    #[serde(rename = "messageID")]
    pub message: MessageId,
    /// The provider's name of the call.
    #[serde(rename = "callID")]
    pub call: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Whether a request was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum RequestState {
    /// Not answered yet.
    Pending,
    /// A permission was decided.
    Replied {
        /// The decision.
        reply: PermissionReply,
        /// What the person added to a refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// True once a gated operation was done on the strength of this answer: it counts for no other.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        used: bool,
    },
    /// The questions were answered.
    Answered {
        /// The chosen labels, one list per question.
        answers: Vec<Vec<String>>,
    },
    /// The questions were turned down.
    Rejected,
    /// The turn ended before anybody answered.
    Withdrawn,
}

impl RequestState {
    /// True while it is not answered.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

/// The answers to a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionReply {
    /// This time.
    Once,
    /// From now on.
    Always,
    /// No.
    Reject,
}
