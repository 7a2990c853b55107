//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod baseline;
mod budgeted_capture;
mod checkpoint;
mod compaction;
mod diff;
mod diff_event_size;
mod engine;
mod error;
mod eviction;
mod eviction_candidates;
mod exec;
mod file;
mod forget;
mod fork;
mod historical_state;
mod id_generator;
mod image_conversion;
mod inbox;
mod jump;
mod maintenance;
mod model_context;
mod newest_prompt;
mod operation_guard;
mod permission;
mod project;
mod project_lookup;
mod prompt_submission;
mod recover;
mod repository;
mod resume;
mod revert;
mod revert_view;
mod session_adoption;
mod session_branch;
mod session_coverage;
mod step;
mod timeline;
mod tracked_call;
mod turn;
mod undo;
mod worktree;

pub use compaction::{CompactionPlan, CompactionRequest, CompactionSummary};
pub use diff::{DiffFormat, DiffTarget, SessionDiff};
pub use engine::{Engine, EngineSettings, OverBudgetPolicy};
pub use error::{EngineError, Result};
pub use exec::{
    AbortOutcome, CommandEnd, CommandExecution, ConcurrentCommand, ExecutionResult,
    ShellCommandOrigin,
};
pub use file::{
    FileError, FileLock, FileReadResult, FileStamp, FileWriteReport, FileWriteRequest,
    WritePrecondition,
};
pub use forget::{AffectedSession, ForgetPlan, ForgetReport};
pub use fork::ForkedWorktree;
pub use inbox::SubmitOutcome;
pub use jump::{SessionCheckpoint, SessionPoint};
pub use maintenance::MaintenanceReport;
pub use newest_prompt::{NextAgent, find_newest_prompt};
pub use operation_guard::list_guard_groups;
pub use permission::{
    BaseRules, EffectiveRules, GateDecision, GateRefusal, PermissionError, PermissionOutcome,
    PermissionQuery, ReplyReport, ResumedTurn, RuleSettings, read_effective_rules,
};
pub use project::{ListedProject, ProjectRemovalPlan, ProjectRemovalReport, RelinkReport};
pub use project_lookup::{NewSession, OpenedProject};
pub use prompt_submission::{PromptOutcome, PromptRouting, PromptSubmission};
pub use recover::RecoveryReport;
pub use session_coverage::{PathLocation, SessionCoverage, SnapshotAccess};
pub use step::{ModelStep, StepEnd, StepReport, ToolFileAccess, ToolRun};
pub use tracked_call::{ClosedCall, TrackedCall};
pub use turn::{Prompt, Turn};
pub use turnstone_process::{
    ChangeKind, ChangedFile, Git, GitCancellation, GitError, GitStatusEntry,
};
pub use turnstone_snapshot::{
    RepositoryError, UntrackedFiles, UntrackedPatch, open_regular_file, read_bounded_file,
    read_git_position,
};
pub use undo::{
    CheckpointChange, ContendedPath, OperationReport, RepositoryMove, RootPlan, RootReport,
    TimelineSwitch, UndoOptions, UndoPlan, UndoScope, UndoTarget, decode_checkpoint,
    decode_expired_guards, decode_report, decode_turns,
};
pub use worktree::{
    UnsavedWork, WorktreeError, WorktreeInfo, WorktreePlan, WorktreeRemovalReport, WorktreeRequest,
    WorktreeResetReport,
};
