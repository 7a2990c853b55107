//! `turnstone log`: what happened in a session, turn by turn and operation by operation.

mod read;
mod run;
mod show;

pub(crate) use read::prompt;
pub(crate) use run::{LogArgs, run};
