//! Peak memory of a server process under hostile peers.
//!
//! Every test starts a server in a process of its own and reads the process's high-water mark.

mod memory_attacks;
mod server_process;
#[path = "../../examples/server/service.rs"]
mod service;
mod slow_peer;
