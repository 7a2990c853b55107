//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod adopt;
mod baseline;
mod branch;
mod call;
mod compaction;
mod context;
mod diff;
mod engine;
mod error;
mod exec;
mod expire;
mod file;
mod forget;
mod fork;
mod guard;
mod image;
mod inbox;
mod jump;
mod line;
mod mark;
mod mint;
mod past;
mod permission;
mod place;
mod project;
mod prompt;
mod recover;
mod relief;
mod repository;
mod resume;
mod revert;
mod room;
mod root;
mod step;
mod submit;
mod told;
mod turn;
mod undo;
mod upkeep;
mod view;
mod worktree;

pub use call::{Call, Closed};
pub use compaction::{CompactionPlan, CompactionRequest, Summary};
pub use diff::{Compared, Differences, Form};
pub use engine::{Engine, Settings, UndoPolicy};
pub use error::{EngineError, Result};
pub use exec::{Abort, Beside, CommandEnd, Execution, Ran, Shell};
pub use file::{Expected, FileError, FileLock, ReadFile, Stamp, WriteFile, WrittenFiles};
pub use forget::{ForgetPlan, Forgotten, Touched};
pub use fork::ForkedWorktree;
pub use guard::guard_groups;
pub use inbox::Submitted;
pub use jump::{Checkpoint, Point};
pub use permission::{
    Asked, BaseRules, NewAsk, PermissionError, Refusal, Replied, Resumed, Rules, Ruling,
    StandingRules, read_rules,
};
pub use place::{NewSession, OpenProject};
pub use project::{ListedProject, ProjectRemoval, Relinked, RemovedProject};
pub use prompt::{NextAgent, newest_prompt};
pub use recover::Recovered;
pub use root::{Cover, Located, SessionCoverage};
pub use step::{Step, StepDone, StepEnd, ToolRun, Touch};
pub use submit::{NewPrompt, Stored, Wish};
pub use turn::{Prompt, Turn};
pub use turnstone_process::{Change, ChangeKind, ChangedFile, Git, GitCancellation, GitError};
pub use turnstone_snapshot::{
    RepositoryError, UntrackedFiles, UntrackedPatch, git_point, open_regular_file,
    read_bounded_file,
};
pub use undo::{
    Contended, GitNote, Mark, OperationReport, RootPlan, RootReport, Scope, Switch, UndoOptions,
    UndoPlan, Which, guards_of, mark_of, report_of, turns_of,
};
pub use upkeep::Tended;
pub use worktree::{
    NewWorktree, OnlyHere, RemovedWorktree, ResetWorktree, WorktreeError, WorktreeInfo,
    WorktreePlan,
};
