//! The codec: messages and expressions as they stand on the wire.
//!
//! Decoding is strict about tags, ids and limits; encoding prints what npm's `capnweb` prints.
//! What decodes encodes again to a text that decodes to the same. Nothing here knows what an
//! expression refers to: that is the session's business.

mod bigint;
mod decode;
mod encode;
mod expr;
mod limits;
mod message;
mod typed_bytes;

pub use bigint::{BigInt, BigIntError};
pub use decode::DecodeError;
pub use encode::EncodeError;
pub use expr::{ErrorExpr, Expr, HttpInit, PathKey, RefExpr, RemapExpr};
pub use limits::{PeerVersion, WireLimits};
pub use message::WireMessage;
pub use typed_bytes::{BytesKind, TypedBytes};
