//! Undo and redo: planned from change sets only, never from what differs between two trees.

mod apply;
mod contend;
mod gather;
mod meanwhile;
mod plan;
mod words;

pub(crate) use gather::{Aside, Gathered, Held};
pub(crate) use plan::{Course, Seen};
pub use words::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, Switch, UndoOptions,
    UndoPlan, Which,
};
