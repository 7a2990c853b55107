//! Full-text search: a consumer of the log with its own cursor in the same file (R23).
//!
//! Owns the tables `search` and `search_doc` and the consumer `search`. Reads the log after its
//! cursor, brings the index to the *current* state of what the events touched, and moves the cursor
//! in the same transaction; every transaction is an ordinary, small mutation of the writer. A query
//! first drains what was logged before it began. Nothing a user types reaches FTS5 as syntax (R44).

mod case_folding;
mod deleted_words;
mod hit;
mod index_plan;
mod indexer;
mod query_parser;
mod run_query;
mod searchable_text;
mod segment_merge;
mod snippet;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use hit::SearchHit;
pub use indexer::{IndexLag, SearchIndexSize, SessionSearch};
pub use run_query::{SearchFilter, SearchPage, SearchQuery};
pub use searchable_text::SearchKind;
pub use snippet::Snippet;
