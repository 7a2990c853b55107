//! Calls that touch files: announced before, compared after.

mod closed_call;
mod compare;
mod track;

pub use closed_call::ClosedCall;
pub(crate) use closed_call::compare_captures;
pub(crate) use compare::CallComparison;
pub use track::ToolCalls;
pub use track::TrackedCall;
pub(crate) use track::session_pin_group;
