//! `turnstone undo` and `turnstone redo`: exactly what turns did, back and forth.

mod run;
mod show;

pub(crate) use run::{RedoArgs, UndoArgs, redo, undo};
pub(crate) use show::{Hints, Shown, print as print_operation};
