//! `turnstone undo` and `turnstone redo`: undo and redo of turns.

mod run;
mod undo_report;

pub(crate) use run::{RedoArgs, UndoArgs, redo, undo};
pub(crate) use undo_report::{ConflictHints, UndoResult, print_result as print_operation};
