//! Import and export: foreign databases, JSON stores and files in, OpenCode's shapes out.
//!
//! Three readers (`source`) turn what they find into raw records; `adopt` makes values of the model out
//! of them; `import` writes those through the store, so that every imported session has a proper
//! history; `export` goes the other way. Nothing here writes to a source, and SQLite is mentioned under
//! `source` only.

mod adopt;
mod export;
mod identity;
mod import;
mod kind;
mod report;
mod sanitize;
mod source;

pub use export::{ExportError, export};
pub use import::{ACTOR, Import, ImportError, Progress};
pub use kind::Kind;
pub use report::{Report, Skipped, Tally};
pub use source::{Options, SourceError};
