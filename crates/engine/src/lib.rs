//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod branch;
mod call;
mod context;
mod engine;
mod error;
mod file;
mod image;
mod inbox;
mod mint;
mod permission;
mod place;
mod prompt;
mod recover;
mod root;
mod step;
mod turn;
mod undo;

pub use call::{Call, Closed};
pub use context::{CompactionPlan, CompactionRequest, Summary};
pub use engine::{Engine, Settings};
pub use error::{EngineError, Result};
pub use file::{Expected, FileError, FileLock, ReadFile, Stamp, WriteFile, WrittenFiles};
pub use inbox::Submitted;
pub use permission::{
    Asked, BaseRules, NewAsk, PermissionError, Replied, Resumed, Rules, Ruling, read_rules,
};
pub use place::{NewSession, OpenProject};
pub use prompt::{NextAgent, newest_prompt};
pub use recover::Recovered;
pub use root::{Cover, Located};
pub use step::{Step, StepDone, StepEnd, ToolRun, Touch};
pub use turn::{Prompt, Turn};
pub use undo::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, UndoOptions, UndoPlan, Which,
};
