//! Commands as turns: any program runs between two captures, and what it did can be undone.
//!
//! Owns the rows of such a turn and their order. Starts no process itself: the caller has the streams,
//! starts it, and hands over the process group before the command runs (R32).

mod abort;
mod begin;
mod command_messages;
mod command_origin;
mod end;
mod execution_result;

pub use abort::AbortOutcome;
pub use abort::Aborts;
pub use begin::Commands;
pub use begin::{CommandExecution, ConcurrentCommand};
pub use command_origin::ShellCommandOrigin;
pub use end::CommandEnd;
pub use execution_result::ExecutionResult;
