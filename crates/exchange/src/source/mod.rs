//! Where sessions come from: OpenCode's database, its older JSON directories, its export documents.
//!
//! A reader finds things and hands them on as raw records, in an order an import can write them in:
//! projects, rules, then session by session (parents first) with messages, parts and what else
//! belongs to it. It judges nothing but readability, and it writes nothing beside what it reads.

mod copy;
mod database;
mod detect;
mod document;
mod error;
mod files;
mod limit;
mod older;
mod record;
mod row;
mod storage;
mod walk;

pub(crate) use detect::{Opened, open, open_stream};
pub use error::{Options, SourceError};
pub(crate) use record::{Reader, Record, Totals};
