//! Files of the worktree as tools read and write them: what a session saw, who may write, and
//! writes that lose no save.

mod error;
mod lock;
mod read;
mod read_stamps;
mod write;

pub use error::FileError;
pub use lock::FileLock;
pub use read::{FileReadResult, FileStamp};
pub(crate) use read_stamps::{ReadStamps, stamp_file_path};
pub use write::{FileWriteReport, FileWriteRequest, WritePrecondition};
