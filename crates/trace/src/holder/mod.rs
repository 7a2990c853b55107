//! The processes that answer for a traced tree: two of them, so that it never depends on one.
//!
//! The **primary** receives each notification, records it and lets the call go on. The **standby**
//! waits for the death of the primary, lets the call go on that was being answered, and takes over. Each
//! replaces the other when it dies. Both are ancestors of the tree, so that they may read its memory
//! where Yama restricts that to ancestors, and so that what is left of the tree stays below them.

mod blocked_calls;
mod call_effect;
mod caller_memory;
mod holder_link;
mod holder_message;
mod holder_process;
mod recorder;
mod trace_writer;
mod tree_survey;

pub(crate) use blocked_calls::BlockedPath;
pub use holder_link::{TraceHolders, fork_holders};
pub(crate) use holder_message::PROBE;
