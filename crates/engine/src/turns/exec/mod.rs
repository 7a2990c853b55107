//! Commands as turns: any program runs between two captures, and what it did can be undone.
//!
//! Owns the rows of such a turn and their order. Starts no process itself: the caller has the streams,
//! starts it, and hands over the process group before the command runs (R32).

mod abort;
mod begin;
mod call_command;
mod command_messages;
mod command_origin;
mod continued_session;
mod end;
mod execution_result;
mod other_worktrees;

pub use abort::AbortOutcome;
pub use abort::Aborts;
pub use begin::Commands;
pub use begin::{CommandExecution, ConcurrentCommand};
pub use call_command::{
    CallCommand, CallCommandEnd, CallCommandReport, CallCommandStreams, CallCommands,
};
pub(crate) use command_origin::CommandOrigin;
pub use command_origin::ShellCommandOrigin;
pub use continued_session::ContinuableSession;
pub use end::CommandEnd;
pub use execution_result::ExecutionResult;
