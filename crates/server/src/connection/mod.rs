//! Connections: who gets one, how many there are, and how long a client may take.
//!
//! A connection is accepted, its peer is identified, and it gets a place in the table of connections or
//! is turned away; only then a request is read. Knows no routes and reads no credentials.

mod accept_loop;
mod active_body;
mod connection_table;
mod refusal;
mod serve_connection;
mod stream_socket;
mod unix_socket;
mod write_timeout;

pub(crate) use accept_loop::{Listeners, accept_connections};
pub(crate) use connection_table::{ConnectionHandle, ConnectionTable, raise_file_limit};
#[cfg(test)]
pub(crate) use stream_socket::tests as stream_socket_tests;
pub(crate) use stream_socket::{DeliveryOutcome, RingMark, StreamSocket, encode_chunk};
pub(crate) use unix_socket::UnixSocket;
pub use unix_socket::UnixSocketError;
