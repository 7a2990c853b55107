//! `turnstone session`: list, show and tidy up.

mod abort;
mod archive;
mod delete;
mod list;
mod rename;
mod show;
mod subcommands;

pub(crate) use subcommands::{SessionCommand, run};
