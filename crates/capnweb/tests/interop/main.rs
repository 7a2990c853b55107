//! Against the real npm package, versions 0.4, 0.8 and 0.12, as client and as server.
//!
//! Node and npm are needed; `interop/capnweb` pins the versions. Only loopback and the npm client
//! use a network.

mod client;
mod golden_vectors;
mod npm_package;
mod server;
#[path = "../../examples/server/service.rs"]
mod service;
mod session_close;
#[path = "../../examples/server/stats.rs"]
mod stats;
