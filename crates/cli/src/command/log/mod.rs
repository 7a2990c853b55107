//! `turnstone log`: what happened in a project or a session, turn by turn and operation by operation.

mod log_entries;
mod log_output;
mod run;
mod turn_numbers;

pub(crate) use log_entries::{find_turn_prompt, read_prompt};
pub(crate) use run::{LogArgs, run};
