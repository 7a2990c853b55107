//! Import and export: foreign databases, JSON stores and files in, OpenCode's shapes out.
//!
//! Three readers (`source`) turn what they find into raw records; `adopt` makes values of the model out
//! of them; `import` writes those through the store, so that every imported session has a proper
//! history; `export` goes the other way. A source is not trusted: what it says about permissions is
//! stored and not in effect, and what a person has here is not changed by it. Nothing here writes to a source, and SQLite is mentioned under
//! `source` only.

mod conversion;
mod export;
mod foreign_id;
mod import;
mod import_report;
mod record_kind;
mod redaction;
mod source;

pub use export::{ExportError, export_session};
pub use import::{IMPORT_ACTOR, ImportError, ImportProgress, PlannedImport};
pub use import_report::{
    ImportReport, ImportedRule, ImportedRules, KindCounts, MAX_LISTED, SkippedRecord,
};
pub use record_kind::RecordKind;
pub use source::{Options, SourceError};
