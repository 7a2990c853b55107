//! Test equipment for Turnstone: fixtures, crashes, injected faults and simulated power loss.
//!
//! Works on any program that prints a line for each thing it acknowledges. Depends on no crate of
//! ours, so that each of them can use it in its tests; nothing that ships may depend on it.

pub mod crash;
pub mod fault;
pub mod fixture;
pub mod marker_scan;
pub mod npm;
pub mod powerloss;
pub mod pseudo_terminal;
pub mod required_tools;
pub mod scripted_model;
pub mod scripted_server;
pub mod small_disk;
mod strace_run;
pub mod test_rounds;
pub mod tripwire;

pub use strace_run::TraceError;
