//! `turnstone exec`: any command as a turn that can be undone.

mod run;
mod shell_quote;
mod supervised_run;

pub(crate) use run::{ExecArgs, run};
pub(crate) use shell_quote::quote_command;
pub(crate) use supervised_run::supervise;
