//! JSON as JavaScript reads and prints it.
//!
//! A reader of our own, because the bytes have to mean what they mean to the peer: every number is
//! a double and is printed as JavaScript prints it, `1e400` is infinite, the last of two equal keys
//! wins at the place of the first, a lone surrogate is no reason to end a session, and nesting is
//! limited before it is followed.

mod json_reader;
mod json_value;
mod json_writer;
mod raw_json;

pub(crate) use json_reader::parse_raw_json;
pub use json_reader::{JsonError, parse_json};
pub use json_value::Json;
pub(crate) use json_value::{MAX_SAFE_INTEGER, as_safe_integer};
pub(crate) use json_writer::write_integer;
pub use json_writer::{write_number, write_string};
pub(crate) use raw_json::RawJson;
