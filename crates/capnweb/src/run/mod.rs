//! Running a session: its calls are started in order and polled until they are done.
//!
//! Uses no runtime: whoever carries the text polls the [`SessionRunner`] from a task of any.

mod call_tasks;
mod session_runner;

pub use session_runner::{Incident, SessionRunner};
