//! What a session is made of: projects, sessions, messages, parts, todos, requests, errors.
//!
//! Each type's serde form is what the log stores, beside a schema version in the event row. The
//! field names are OpenCode's, so that nobody has to learn two sets; ids that name the row itself
//! are kept beside the body, not in it. Unknown fields are carried in `extra` and survive.

mod failure;
mod message;
mod part;
mod project;
mod request;
mod session;
mod status;

pub use failure::{Failure, FailureKind};
pub use message::{
    Assistant, AssistantTime, CacheTokens, Message, MessageBody, MessagePath, ModelRef, Tokens,
    User, UserSummary, UserTime,
};
pub use part::{
    AgentPart, Compaction, FilePart, OpaquePart, Part, PartBody, Patch, Reasoning, Retry,
    SnapshotPart, Span, StepFinish, StepStart, Subtask, Text, Tool, ToolState, ToolTime,
};
pub use project::{Alias, AliasKind, Project, ProjectTime};
pub use request::{
    PermissionAsk, PermissionReply, Question, QuestionAsk, QuestionOption, Request, RequestBody,
    RequestId, RequestState, ToolCall,
};
pub use session::{
    FileDiff, Origin, Revert, Session, SessionModel, SessionTime, Share, Summary, Usage, UsageBase,
};
pub use status::{Status, Todo};

/// Fields this version does not know; kept and written back as they were.
pub type Extra = serde_json::Map<String, serde_json::Value>;

/// The version of the stored payloads written by this program.
pub const SCHEMA_VERSION: u16 = 1;
