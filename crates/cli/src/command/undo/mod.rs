//! `turnstone undo` and `turnstone redo`: exactly what turns did, back and forth.

mod run;
mod show;

pub(crate) use run::{RedoArgs, UndoArgs, redo, undo};
