//! Snapshots that OpenCode made: found where it keeps them, read there, and copied into a store.
//!
//! OpenCode keeps one git repository for each worktree and names trees of it in the steps of its sessions. No
//! reference protects these trees, so any of them may be gone. A source is as hostile as any import: nothing of it is
//! executed, its configuration is not read, each object is bounded and compared with its name, and nothing in it is
//! changed.

mod adoption;
mod location;
mod objects;

pub(crate) use adoption::adopt_steps;
pub use adoption::{AdoptedStep, RecordedPath, RecordedStep};
pub use location::{ForeignSnapshots, find_foreign_snapshots};
