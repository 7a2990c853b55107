//! Traces of commands: the files that hold them, and what they prove about the changes in a window (R2).
//!
//! Owns the folder `trace` of the data directory. A trace only decides whose the changes between two captures
//! are; what changed is always found by comparing the captures.

mod continued_window;
mod path_aliases;
mod touch_paths;
mod trace_files;
mod traced_window;

pub(crate) use trace_files::TraceFiles;
pub(crate) use traced_window::{AttributedChanges, CallTrace, TracedWindow};
