//! The streams a command speaks through: data to stdout, everything else to stderr.
//!
//! Owns both streams, their colours and the width to lay text out for. Nobody else writes to them.

mod screen;
mod stream;
mod style;
mod table;

pub(crate) use screen::{Ui, last_words, show_usage};
pub(crate) use stream::LogWriter;
pub(crate) use style::{BAD, DIM, FOUND, GOOD, HEAD, NAME, WARN, adopt, paint};
pub(crate) use table::{Column, Grid};
