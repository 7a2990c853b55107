//! The snapshot handle: how any process uses the store of a directory (R11).
//!
//! The process that holds the store's lock is its owner. It does the work itself, also for other
//! processes, which send requests over a socket. Those read the store directly; when the owner
//! ends, the next one with a request takes over. The methods and results are the same for both.

mod client;
mod error;
mod foreign_steps;
mod handle;
mod maintenance;
mod message_frame;
mod protocol;
mod read;
mod request_handler;
mod server;
mod socket;
mod store_owner;
mod store_status;

pub use error::{SnapshotError, StoreFailure, StoreFailureKind};
pub use handle::{SnapshotHandle, SnapshotOptions};
pub use maintenance::SnapshotMaintenance;
pub use protocol::{GcOutcome, GcRequest};
pub use read::SnapshotReader;
pub use request_handler::BASELINE_GROUP;
pub(crate) use request_handler::PREVIEW_GROUP;
pub use store_status::StoreStatus;
