//! The codec: messages and expressions as they stand on the wire.
//!
//! Decoding is strict about tags, ids and limits; encoding prints what npm's `capnweb` prints.
//! What decodes encodes again to a text that decodes to the same. Nothing here knows what an
//! expression refers to: that is the session's business.

mod binary;
mod decode;
mod encode;
mod expr;
mod limits;
mod message;
mod number;

pub use binary::{Bytes, BytesKind};
pub use decode::DecodeError;
pub use encode::EncodeError;
pub use expr::{ErrorExpr, Expr, HttpInit, Key, RefExpr, RemapExpr};
pub use limits::{Profile, WireLimits};
pub use message::Message;
pub use number::{BigInt, NotABigInt};
