//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod captures;
mod engine;
mod error;
mod history;
mod id_generator;
mod maintenance;
mod permissions;
mod projects;
mod tool_calls;
mod turns;

pub use captures::operation_guard::list_guard_groups;
pub use captures::session_coverage::{PathLocation, SessionCoverage, SnapshotAccess};
pub use engine::{Engine, EngineSettings, OverBudgetPolicy};
pub use error::{EngineError, Result};
pub use history::client_edit::{ProjectPatch, SessionPatch};
pub use history::diff::{DiffFormat, DiffTarget, SessionDiff};
pub use history::fork::ForkedWorktree;
pub use history::jump::{SessionCheckpoint, SessionPoint};
pub use history::replication::ReplicatedEvent;
pub use history::undo::{
    CheckpointChange, ContendedPath, OperationReport, RepositoryMove, RootPlan, RootReport,
    TimelineSwitch, UndoOptions, UndoPlan, UndoScope, UndoTarget, decode_checkpoint,
    decode_expired_guards, decode_report, decode_turns,
};
pub use maintenance::forget::{AffectedSession, ForgetPlan, ForgetReport};
pub use maintenance::recover::RecoveryReport;
pub use maintenance::upkeep::MaintenanceReport;
pub use permissions::{
    BaseRules, EffectiveRules, GateDecision, GateRefusal, PermissionError, PermissionOutcome,
    PermissionQuery, ReplyReport, ResumedTurn, RuleSettings, read_effective_rules,
};
pub use projects::project::{
    ListedProject, ProjectRemovalPlan, ProjectRemovalReport, RelinkReport,
};
pub use projects::project_lookup::{NewSession, OpenedProject};
pub use projects::worktree::{
    UnsavedWork, WorktreeError, WorktreeInfo, WorktreePlan, WorktreeRemovalReport, WorktreeRequest,
    WorktreeResetReport,
};
pub use tool_calls::file::{
    FileError, FileLock, FileReadResult, FileStamp, FileWriteReport, FileWriteRequest,
    WritePrecondition,
};
pub use tool_calls::tracked_call::{ClosedCall, TrackedCall};
pub use turns::compaction::{CompactionPlan, CompactionRequest, CompactionSummary};
pub use turns::exec::{
    AbortOutcome, CommandEnd, CommandExecution, ConcurrentCommand, ExecutionResult,
    ShellCommandOrigin,
};
pub use turns::inbox::SubmitOutcome;
pub use turns::newest_prompt::{NextAgent, find_newest_prompt};
pub use turns::prompt_submission::{PromptOutcome, PromptRouting, PromptSubmission};
pub use turns::step::{ModelStep, StepEnd, StepReport, ToolFileAccess, ToolRun};
pub use turns::turn::{Prompt, Turn};
pub use turnstone_process::{
    ChangeKind, ChangedFile, Git, GitCancellation, GitError, GitStatusEntry,
};
pub use turnstone_snapshot::{
    RepositoryError, UntrackedFiles, UntrackedPatch, open_regular_file, read_bounded_file,
    read_git_position,
};
