//! `turnstone snapshot`: captures of a directory, and the way back.

mod diff;
mod history;
mod path;
mod report;
mod restore;
mod run;
mod show;
mod site;
mod space;
mod track;
mod undo;
mod verify;
mod watch;
mod words;

pub(crate) use path::chosen;
pub(crate) use report::foreseen;
pub(crate) use run::{SnapshotCommand, run};
pub(crate) use site::{look, vault_options};
pub(crate) use words::{exit, hint, reason, why};
