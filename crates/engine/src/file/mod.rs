//! Files of the worktree as tools read and write them: what a session saw, who may write, and
//! writes that lose nobody's save.

mod error;
mod lock;
mod memory;
mod sight;
mod write;

pub use error::FileError;
pub use lock::FileLock;
pub(crate) use memory::Sights;
pub use sight::{ReadFile, Stamp};
pub use write::{Expected, WriteFile, WrittenFiles};
