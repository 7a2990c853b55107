//! JSON as JavaScript reads and prints it.
//!
//! A reader of our own, because the bytes have to mean what they mean to the peer: every number is
//! a double and is printed as JavaScript prints it, `1e400` is infinite, the last of two equal keys
//! wins at the place of the first, a lone surrogate is no reason to end a session, and nesting is
//! limited before it is followed.

mod raw;
mod read;
mod value;
mod write;

pub(crate) use raw::Raw;
pub(crate) use read::read_raw;
pub use read::{JsonError, read};
pub use value::Json;
pub(crate) use value::{MAX_SAFE_INTEGER, integer};
pub(crate) use write::write_integer;
pub use write::{write_number, write_string};
