//! `turnstone log`: what happened in a session, turn by turn and operation by operation.

mod log_entries;
mod log_output;
mod run;

pub(crate) use log_entries::find_turn_prompt;
pub(crate) use run::{LogArgs, run};
