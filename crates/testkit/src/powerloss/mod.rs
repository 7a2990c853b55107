//! Power loss: what a disk may hold after the current goes, at every moment of a recorded run (R34).
//!
//! [`Recorder`] runs a program under strace and takes down, in one global order, every change of a
//! file or a name below a directory, every sync, and every write to standard output: the lines by
//! which the program acknowledges. [`Image::at`] rebuilds the directory from that as it may be
//! found after a power cut at one [`Point`]; [`Recording::acknowledged`] says what the program had
//! promised by then.
//!
//! The rules, strict by default:
//! - Data is durable once a sync of its file, begun after the write returned, has returned 0. Until
//!   then it is lost ([`Data::DropUnsynced`]) or kept in part, sector by sector ([`Data::Torn`]).
//! - A file's size is data: it grows with synced writes, and a truncation lasts from the next sync.
//! - A name (created, linked, renamed, removed) is durable once its directory has been synced, and
//!   that directory's own name with its parent. A rename within one directory is atomic; across
//!   two, each directory keeps its own half. [`Names::Ordered`] is the milder, ext4-like rule.
//! - `sync_file_range` and `close` make nothing durable; a call that strace answered in the kernel's
//!   place (`FaultPlan`) did not happen.
//!
//! What it cannot model it refuses: shared writable mappings of anything but SQLite's `-shm`
//! (volatile by design and left out of images), `O_SYNC`, files renamed in from outside. Programs
//! are told that `copy_file_range`, `sendfile`, `splice` and `io_uring` do not exist, so that their
//! data passes through writes. At the end the model of the live directory is compared with the real
//! one, byte by byte, and so are the acknowledgements: a change it has missed is an error.
//! Modes, owners, times and extended attributes are not modelled.

mod content;
mod disk;
mod event;
mod image;
mod log;
mod namespace;
mod naming;
mod process;
mod recorder;
mod recording;
mod request;
mod tracker;
mod tree;
mod value;

pub use event::{Event, NameChange, NodeId, Operation};
pub use image::{Data, Image, Names, Policy};
pub use recorder::{RecordError, Recorder};
pub use recording::{Loss, Point, PointKind, Recording, Side};
