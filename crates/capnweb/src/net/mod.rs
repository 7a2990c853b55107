//! Carrying sessions: HTTP batches and WebSockets, for servers and for clients.

#[cfg(feature = "client")]
mod client;
mod frame;
#[cfg(feature = "server")]
mod server;
mod socket;

#[cfg(feature = "client")]
pub use client::{Batch, ConnectError, connect, connect_over};
#[cfg(feature = "server")]
pub use server::{Server, ServerOptions, router, serve_batch};
