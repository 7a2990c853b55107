//! Cap'n Web: ours against the npm package on Node, both ways, in one run (R36).
//!
//! Four pairs of client and server, always two processes of one thread each, on loopback. The Rust
//! program here is the load generator wherever it can be; between npm and npm, and from npm to ours, the
//! client is npm's own and so runs on Node. It does the same calls in the same loops.

mod call_bytes;
mod client_server_pairs;
mod endpoint_process;
mod rust_endpoint;
mod session_memory;

pub(crate) use client_server_pairs::run;
pub(crate) use rust_endpoint::serve;
