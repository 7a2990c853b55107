//! Running a session: its calls are started in order and polled until they are done.
//!
//! Uses no runtime: whoever carries the text polls the [`Runner`] from a task of any.

mod runner;
mod tasks;

pub use runner::{Incident, Runner};
