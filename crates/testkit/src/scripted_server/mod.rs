//! An HTTP server whose responses are written down byte by byte, with pauses and cuts.

mod connection;
mod reply;
mod server;

pub use connection::{RecordedRequest, serve_connection};
pub use reply::{ReplyPiece, ServerReply};
pub use server::ScriptedServer;
