//! Captures: the open snapshot stores, what a session covers, and what is evicted when space runs out.

mod assembly;
pub(crate) mod budgeted_capture;
mod change_roots;
pub(crate) mod eviction;
pub(crate) mod eviction_candidates;
pub(crate) mod operation_guard;
pub(crate) mod partial_capture;
pub(crate) mod root_overlap;
pub(crate) mod session_coverage;
pub(crate) mod snapshot_handles;
pub(crate) mod trace;
pub(crate) mod watched_roots;

pub(crate) use assembly::Captures;
