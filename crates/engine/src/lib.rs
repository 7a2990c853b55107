//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod adopt;
mod branch;
mod call;
mod engine;
mod error;
mod exec;
mod image;
mod mint;
mod place;
mod project;
mod recover;
mod room;
mod root;
mod turn;
mod undo;
mod worktree;

pub use call::{Call, Closed};
pub use engine::{Engine, Settings};
pub use error::{EngineError, Result};
pub use exec::{Beside, CommandEnd, Execution};
pub use place::{NewSession, OpenProject};
pub use project::{ListedProject, ProjectRemoval, Relinked, RemovedProject};
pub use recover::Recovered;
pub use root::{Cover, Located};
pub use turn::{Prompt, Turn};
pub use undo::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, UndoOptions, UndoPlan, Which,
};
pub use worktree::{
    NewWorktree, OnlyHere, RemovedWorktree, ResetWorktree, WorktreeError, WorktreeInfo,
};
