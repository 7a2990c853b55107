//! What a session is made of: projects, sessions, messages, parts, todos, requests, errors.
//!
//! Each type's serde form is what the log stores, beside a schema version in the event row. The
//! field names are OpenCode's, so that nobody has to learn two sets; ids that name the row itself
//! are kept beside the body, not in it. Unknown fields are carried in `extra` and survive.

mod extra;
mod failure;
mod message;
mod part;
mod project;
mod request;
mod session;
mod status;

pub use extra::{Extra, SCHEMA_VERSION};
pub use failure::{Failure, FailureKind};
pub use message::{
    Assistant, AssistantTime, CacheTokens, Message, MessageBody, MessagePath, ModelRef, Tokens,
    User, UserSummary, UserTime,
};
pub use part::{
    AgentPart, Compaction, FilePart, OpaquePart, Part, PartBody, Patch, Reasoning, Retry,
    SnapshotPart, Span, StepFinish, StepStart, Subtask, Text, Tool, ToolState, ToolTime,
};
pub use project::{
    Alias, AliasKind, MadeWorktree, Project, ProjectTime, WorktreeNews, WorktreeOutcome,
};
pub use request::{
    PermissionAsk, PermissionReply, Question, QuestionAsk, QuestionOption, Request, RequestBody,
    RequestId, RequestState, ToolCall,
};
pub use session::{
    FileDiff, Origin, Revert, Session, SessionModel, SessionTime, Share, Summary, Usage, UsageBase,
};
pub use status::{Status, Todo};
