//! `turnstone session`: list, show, rename, archive, abort, delete.

mod abort;
mod archive;
mod delete;
mod list;
mod rename;
mod show;
mod subcommands;

pub(crate) use delete::finish_deletions;
pub(crate) use subcommands::{SessionCommand, run};
