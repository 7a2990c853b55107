//! Import and export: foreign databases, JSON stores and files in, OpenCode's shapes out.
//!
//! Three readers (`source`) turn what they find into raw records; `adopt` makes values of the model out
//! of them; `import` writes those through the store, so that every imported session has a proper
//! history; `export` goes the other way. A source is not trusted: what it says about permissions is
//! stored and not in effect, and what a person has here is not changed by it. Nothing here writes to a source, and SQLite is mentioned under
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
pub use report::{CarriedRule, CarriedRules, MAX_LISTED, Report, Skipped, Tally};
pub use source::{Options, SourceError};
