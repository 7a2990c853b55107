//! `turnstone session`: list, show and tidy up.

mod archive;
mod delete;
mod list;
mod rename;
mod run;
mod show;

pub(crate) use run::{SessionCommand, run};
