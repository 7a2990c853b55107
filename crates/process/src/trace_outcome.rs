//! Whether a command is traced, and where the trace is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use turnstone_trace::TraceUnavailable;

/// Asks for a trace of what a command writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The file to be created for the log: absolute, and not there yet.
    pub log: PathBuf,
}

/// Whether a command is traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// Everything the command and its children do is recorded.
    Traced,
    /// The caller did not ask for it.
    NotRequested,
    /// It was asked for and is impossible; the command runs all the same.
    Unavailable(TraceUnavailable),
}
