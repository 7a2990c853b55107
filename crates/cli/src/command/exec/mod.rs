//! `turnstone exec`: any command as a turn that can be undone.

mod other_worktrees;
mod run;
mod shell_quote;
mod supervised_run;
mod trace_notes;

pub(crate) use run::{ExecArgs, find_parent_session, run};
pub(crate) use shell_quote::{quote_command, quote_os_word};
pub(crate) use supervised_run::supervise;
