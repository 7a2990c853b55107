//! Running a session: its calls are started in order and polled until they are done.
//!
//! Uses no runtime: the transport polls the [`SessionRunner`] from a task of any runtime.

mod call_tasks;
mod session_runner;

pub use session_runner::{Incident, SessionRunner};
