//! What a trace recorded, and the file that holds it.

mod log_record;
mod touch;
mod trace_gap;
mod trace_log;

pub(crate) use log_record::{LogHeader, LogRecord, MAX_LOG_BYTES};
pub use touch::{Touch, TouchKind, TouchParent, TouchTarget};
pub use trace_gap::{TraceGap, TraceGapReason};
pub use trace_log::{RemainingProcess, TraceLog, TraceLogError};
