//! `turnstone session`: list, show and tidy up.

mod abort;
mod archive;
mod delete;
mod list;
mod rename;
mod run;
mod show;

pub(crate) use run::{SessionCommand, run};
