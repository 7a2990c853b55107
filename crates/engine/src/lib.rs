//! The application: runs turns against database and snapshots, and undoes exactly what one turn did.
//!
//! Owns the order of steps: what is captured before a call, what is stored before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no text for people. Synchronous: a caller that serves many requests provides the threads.

mod captures;
mod engine;
mod error;
mod history;
mod id_generator;
mod maintenance;
mod permissions;
mod projects;
mod settings;
mod tool_calls;
mod turns;

pub use captures::operation_guard::list_guard_groups;
pub use captures::session_coverage::{PathLocation, SessionCoverage, SnapshotAccess};
pub use captures::snapshot_handles::SnapshotHandles;
pub use captures::watched_roots::{
    WatchMaintenanceReport, WatchPhase, WatchedRootStatus, WatchedRoots,
};
pub use engine::Engine;
pub use error::{EngineError, Result};
pub use history::History;
pub use history::checkout_turns::{CheckoutScope, CheckoutTurns, TurnChoiceError, UndoChoice};
pub use history::checkpoint::Checkpoints;
pub use history::client_edit::{ClientEdits, ProjectPatch, SessionPatch};
pub use history::diff::{DiffFormat, DiffTarget, Diffs, SessionDiff, TurnTrace};
pub use history::fork::{ForkedWorktree, Forks};
pub use history::imported_session::ImportedSessions;
pub use history::imported_snapshots::{SnapshotAdoptionReport, UnadoptedStep};
pub use history::jump::{SessionCheckpoint, SessionPoint};
pub use history::replication::{ReplicatedEvent, Replication};
pub use history::revert::Reverts;
pub use history::undo::{
    CheckpointChange, ContendedPath, ConversationMove, ForeignChanges, LostWindow, MissingCapture,
    OperationReport, RepositoryMove, RootPlan, RootReport, TimelineSwitch, UndoAspect, UndoOptions,
    UndoPlan, UndoTarget, UnmovedConversation, UnmovedReason, UnobservedRoot, decode_checkpoint,
    decode_expired_guards, decode_leader, decode_report, decode_turns,
};
pub use maintenance::Maintenance;
pub use maintenance::deletion::{ErasureReport, RetainedCopies, SessionEraser};
pub use maintenance::forget::{AffectedSession, ForgetPlan, ForgetReport, PathEraser};
pub use maintenance::recover::RecoveryReport;
pub use maintenance::scheduled_maintenance::MaintenanceReport;
pub use permissions::{
    EffectiveRules, GateDecision, GateRefusal, OperationGates, PermissionError, PermissionOutcome,
    PermissionQuery, PermissionRules, Permissions, ReplyReport, ResumedTurn, RuleScope,
    RuleSettings, resolve_path,
};
pub use projects::Projects;
pub use projects::directory_location::DirectoryLocation;
pub use projects::git_patch::FilePatch;
pub use projects::project::{
    ListedProject, ProjectRemovalPlan, ProjectRemovalReport, RelinkReport,
};
pub use projects::project_lookup::{NewSession, OpenedProject};
pub use projects::repository::Repositories;
pub use projects::repository_changes::{CheckoutBranches, DiffBase, RepositoryReader};
pub use projects::worktree::{
    UnsavedWork, WorktreeError, WorktreeInfo, WorktreePlan, WorktreeRemovalReport, WorktreeRequest,
    WorktreeResetReport, Worktrees,
};
pub use settings::{EngineSettings, OverBudgetPolicy, WatchLimits};
pub use tool_calls::ToolCalls;
pub use tool_calls::file::{
    FileError, FileLock, FileReadResult, FileStamp, FileWriteReport, FileWriteRequest,
    WritePrecondition,
};
pub use tool_calls::tracked_call::{ClosedCall, TrackedCall};
pub use turns::Turns;
pub use turns::compaction::{Compaction, CompactionPlan, CompactionRequest, CompactionSummary};
pub use turns::exec::{
    AbortOutcome, Aborts, CallCommand, CallCommandEnd, CallCommandReport, CallCommandStreams,
    CallCommands, CommandEnd, CommandExecution, Commands, ConcurrentCommand, ContinuableSession,
    ExecutionResult, ShellCommandOrigin,
};
pub use turns::model_context::ModelContexts;
pub use turns::newest_prompt::NextAgent;
pub use turns::prompt_submission::{PromptOutcome, PromptRouting, PromptSubmission};
pub use turns::step::{ModelStep, StepEnd, StepReport, Steps, ToolFileAccess, ToolRun};
pub use turns::step_usage::StepUsage;
pub use turns::turn::{Prompt, Turn};
pub use turns::turn_watch::{TurnSignal, TurnWatches};
pub use turnstone_process::{
    ChangeKind, ChangedFile, CommandControl, CommandExit, Git, GitCancellation, GitError,
    GitStatusEntry, LiveOutput, SupervisorProgram,
};
pub use turnstone_snapshot::{JournalState, MaintenanceInterval};
pub use turnstone_snapshot::{
    RepositoryError, UntrackedFiles, UntrackedPatch, open_regular_file, read_bounded_file,
    read_git_position,
};
pub use turnstone_store::PromptDelivery;
