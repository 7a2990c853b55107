//! Undo and redo: planned from change sets only, never from what differs between two trees.

mod also;
mod apply;
mod gather;
mod meanwhile;
mod plan;
mod seen;
mod words;

pub use words::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, UndoOptions, UndoPlan, Which,
};
