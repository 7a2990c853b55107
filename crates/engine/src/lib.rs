//! The application: runs turns against ledger and snapshots, takes back exactly what one turn did.
//!
//! Owns the order of things: what is captured before a call, what is written down before a file is
//! touched, what recovery finishes. Decides nothing itself that `core` can decide; knows no HTTP, no
//! model and no words for people. Synchronous: whoever serves many callers gives it threads.

mod branch;
mod call;
mod diff;
mod engine;
mod error;
mod fork;
mod image;
mod jump;
mod line;
mod mint;
mod past;
mod place;
mod recover;
mod revert;
mod root;
mod turn;
mod undo;
mod view;

pub use call::{Call, Closed};
pub use diff::Differences;
pub use engine::{Engine, Settings};
pub use error::{EngineError, Result};
pub use jump::{Checkpoint, Point};
pub use place::{NewSession, OpenProject};
pub use recover::Recovered;
pub use root::{Cover, Located};
pub use turn::{Prompt, Turn};
pub use undo::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, Switch, UndoOptions,
    UndoPlan, Which,
};
