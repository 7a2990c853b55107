//! What a session is made of: projects, sessions, messages, parts, todos, requests, errors.
//!
//! Each type's serde form is what the log stores, with a schema version in the event row. The
//! field names are OpenCode's, so that there is only one set of names. Ids of the row itself are
//! columns and not part of the body. Unknown fields are kept in `extra`.

mod extra;
mod message;
mod message_failure;
mod part;
mod project;
mod session;
mod status;
mod user_request;

pub use extra::{ExtraFields, SCHEMA_VERSION};
pub use message::{
    AssistantMessage, AssistantTime, CacheTokenCounts, Message, MessageBody, MessagePath, ModelRef,
    TokenCounts, UserMessage, UserSummary, UserTime,
};
pub use message_failure::{MessageFailure, MessageFailureKind};
pub use part::{
    AgentPart, CompactionPart, FilePart, OpaquePart, Part, PartBody, PartTime, PatchPart,
    ReasoningPart, RetryPart, SnapshotPart, StepFinishPart, StepStartPart, SubtaskPart, TextPart,
    ToolPart, ToolState, ToolTime,
};
pub use project::{
    CreatedWorktree, FileIdentity, JoinedClone, Project, ProjectAlias, ProjectAliasKind,
    ProjectTime, RecordedRoot, WorktreeCreationEvent, WorktreeOutcome,
};
pub use session::{
    ChangeSummary, ForkOrigin, ImportedUsage, RevertState, Session, SessionFileDiff, SessionModel,
    SessionShare, SessionTime, SessionUsage,
};
pub use status::{SessionStatus, Todo};
pub use user_request::{
    PermissionAsk, PermissionReply, Question, QuestionAsk, QuestionOption, RequestBody, RequestId,
    RequestState, ToolCallRef, UserRequest,
};
