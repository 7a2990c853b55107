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
pub use written::{NamedPoint, name_of, report_of, turns_of};
pub(crate) use written::{is_switch, write_branch, write_name, written};
