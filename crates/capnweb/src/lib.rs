//! Cap'n Web: object-capability RPC over JSON messages, as spoken by the npm package `capnweb`.
//!
//! [`wire`] is the codec: every message and every expression of the protocol, strict about tags
//! and limits. It starts nothing, reads no clock and opens no socket.

pub mod json;
pub mod wire;
