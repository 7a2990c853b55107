//! Compaction (R25): makes stubs of events that a later event of the same entity contains.
//!
//! The rule is [`turnstone_core::retention`]; here it is applied, stream by stream, in small
//! transactions that may stop anywhere. A stub keeps number, type and entity and loses what it
//! said; adjacent stubs of one part's deltas become one row that stands for all their numbers.
//! Owns `stream.compacted_seq`, the boundary up to which a stream is settled, and
//! `stream.scanned_seq`, the place up to which it was last looked at.

mod apply_action;
mod planner;
mod retention_limit;
mod runner;

pub(crate) use retention_limit::compaction_limit;
pub(crate) use runner::compact_log;
