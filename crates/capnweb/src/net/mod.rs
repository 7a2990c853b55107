//! Carrying sessions: HTTP batches and WebSockets, for servers and for clients.

#[cfg(feature = "client")]
mod client;
mod frame;
mod metered;
#[cfg(feature = "server")]
mod server;
mod socket;
#[cfg(feature = "server")]
mod stats;

#[cfg(feature = "client")]
pub use client::{Batch, ConnectError, connect, connect_over};
#[cfg(feature = "server")]
pub use server::{Server, ServerOptions, router, serve_batch};
#[cfg(feature = "server")]
pub use stats::ServerStats;
