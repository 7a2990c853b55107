//! Where sessions come from: OpenCode's database, its older JSON directories, its export documents.
//!
//! A reader finds things and hands them on as raw records, in an order an import can write them in:
//! projects, rules, then session by session (parents first) with messages, parts and what else
//! belongs to it. It judges nothing but readability, and it writes nothing next to what it reads.

mod database;
mod document_walk;
mod error;
mod export_document;
mod foreign_row;
mod json_files;
mod json_storage;
mod legacy_layout;
mod private_copy;
mod source_detection;
mod source_limits;
mod source_record;

pub use error::{Options, SourceError};
pub(crate) use source_detection::{OpenedSource, open_source};
pub(crate) use source_record::{KindTotals, SourceReader, SourceRecord};
