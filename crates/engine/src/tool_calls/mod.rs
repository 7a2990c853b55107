//! Tool calls and change sets: what a call may touch, what it changed, and the files it reads and writes.

pub(crate) mod file;
pub(crate) mod process_group;
pub(crate) mod tracked_call;

pub use tracked_call::ToolCalls;
