//! Undo, planned from change sets only, never from what differs between two trees; and redo, which walks
//! back what an undo wrote down.

mod apply;
mod contend;
mod gather;
mod meanwhile;
mod plan;
mod retrace;
mod words;
mod written;

pub(crate) use gather::{Aside, Gathered, Held};
pub(crate) use plan::{Course, Seen};
pub(crate) use words::IMPORTED;
pub use words::{
    Contended, GitNote, OperationReport, RootPlan, RootReport, Scope, Switch, UndoOptions,
    UndoPlan, Which,
};
pub use written::{Mark, guards_of, mark_of, report_of, turns_of};
pub(crate) use written::{
    is_switch, orders_of, write_branch, write_mark, write_plan, write_report, written,
};
