//! Carrying sessions: HTTP batches and WebSockets, for servers and for clients.

#[cfg(feature = "client")]
mod client;
mod metered_stream;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod server_stats;
mod ws_connection;
mod ws_frame;

#[cfg(feature = "client")]
pub use client::{ConnectError, RpcBatch, connect, connect_over};
#[cfg(feature = "server")]
pub use server::{RpcServer, ServerOptions, router, serve_batch};
#[cfg(feature = "server")]
pub use server_stats::ServerStats;
