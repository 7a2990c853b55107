//! Power loss: what a disk may hold after the power fails, at every moment of a recorded run (R34).
//!
//! [`Recorder`] runs a program under strace and records, in one global order, every change of a
//! file or a name below a directory, every sync, and every write to standard output: the lines by
//! which the program acknowledges. [`DiskImage::build`] rebuilds the directory from that as it may be
//! found after a power cut at one [`CutPoint`]; [`Recording::acknowledged`] says what the program had
//! promised by then.
//!
//! The rules, strict by default:
//! - Data is durable once a sync of its file, begun after the write returned, has returned 0. Until
//!   then it is lost ([`UnsyncedData::DropUnsynced`]) or kept in part, sector by sector ([`UnsyncedData::Torn`]).
//! - A file's size is data: it grows with synced writes, and a truncation lasts from the next sync.
//! - A name (created, linked, renamed, removed) is durable once its directory has been synced, and
//!   that directory's own name with its parent. A rename within one directory is atomic; across
//!   two, each directory keeps its own half. [`NameDurability::Ordered`] is the milder, ext4-like rule.
//! - `sync_file_range` and `close` make nothing durable; a call that strace answered in the kernel's
//!   place (`FaultPlan`) did not happen.
//!
//! What it cannot model it refuses: shared writable mappings of anything but SQLite's `-shm`
//! (volatile by design and omitted from images), `O_SYNC`, files renamed in from outside.
//! `copy_file_range`, `sendfile`, `splice` and `io_uring` fail as if they did not exist, so that the
//! data passes through writes. At the end the model of the live directory is compared with the real
//! one, byte by byte, and so are the acknowledgements: a change it has missed is an error.
//! Modes, owners, times and extended attributes are not modelled.

mod call_args;
mod content_calls;
mod disk_event;
mod disk_image;
mod disk_model;
mod memory_tree;
mod name_calls;
mod namespace;
mod recorder;
mod recording;
mod strace_log;
mod strace_value;
mod traced_processes;
mod tracker;

pub use disk_event::{DiskEvent, DiskOperation, NameChange, NodeId};
pub use disk_image::{DiskImage, NameDurability, PowerCutPolicy, UnsyncedData};
pub use recorder::{RecordError, Recorder};
pub use recording::{CutPoint, CutPointKind, CutSide, DurabilityLoss, Recording};
