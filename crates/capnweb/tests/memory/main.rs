//! Peak memory of a server process under hostile peers.
//!
//! Every test starts a server in a process of its own and reads the process's high-water mark.

mod attack;
mod process;
#[path = "../../examples/server/service.rs"]
mod service;
mod slow;
