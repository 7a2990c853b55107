//! Full-text search: a consumer of the log with its own cursor in the same file (R23).
//!
//! Owns the tables `search` and `search_doc` and the consumer `search`. Reads the log after its
//! cursor, brings the index to the *current* state of what the events touched, and moves the cursor
//! in the same transaction; every transaction is an ordinary, small mutation of the writer. A query
//! first drains what was logged before it began. Nothing a user types reaches FTS5 as syntax (R44).

mod find;
mod fold;
mod hit;
mod index;
mod merge;
mod plan;
mod query;
mod snippet;
#[cfg(test)]
mod tests;
mod text;
mod word;

pub use find::{SearchFilter, SearchPage, SearchQuery};
pub use hit::SearchHit;
pub use index::{Indexed, SearchSize};
pub use snippet::Snippet;
pub use text::SearchKind;
