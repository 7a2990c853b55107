//! Cap'n Web: object-capability RPC over JSON messages, as spoken by the npm package `capnweb`.
//!
//! [`wire`] is the codec: every message and every expression of the protocol, strict about tags
//! and limits. [`session`] is one end of a session: text in, text and events out. Neither starts
//! anything, reads a clock or opens a socket.

pub mod app;
pub mod error;
pub mod json;
#[cfg(feature = "socket")]
pub mod net;
pub mod run;
pub mod session;
pub mod value;
pub mod wire;
