//! `turnstone undo` and `turnstone redo`: undo and redo of turns.

mod directory_lines;
mod recovered_operation;
mod run;
mod undo_hints;
mod undo_report;

pub(crate) use run::{RedoArgs, UndoArgs, redo, undo};
pub(crate) use undo_hints::UndoHints;
pub(crate) use undo_report::{UndoResult, print_result as print_operation};
