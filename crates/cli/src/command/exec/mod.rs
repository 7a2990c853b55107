//! `turnstone exec`: any command as a turn that can be taken back.

mod attend;
mod line;
mod run;

pub(crate) use attend::supervise;
pub(crate) use line::line;
pub(crate) use run::{ExecArgs, run};
