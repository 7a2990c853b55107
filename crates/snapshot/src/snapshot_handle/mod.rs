//! The vault: one face of a directory's store, for its keeper and for everybody else (R11).
//!
//! Whoever holds the store's lock is its keeper and does the work itself, for others too, who ask it
//! over a socket. Whoever finds it kept reads by itself and lets the keeper write; when the keeper
//! ends, the next one who asks takes over. The same methods, the same answers, both ways.

mod capture_copy;
mod capture_listing;
mod capture_pin;
mod change_listing;
mod client;
mod error;
mod eviction;
mod file_access;
mod forget;
mod handle;
mod message_frame;
mod protocol;
mod read;
mod request_handler;
mod server;
mod socket;
mod store_owner;
mod verify;

pub use capture_listing::{ListedCapture, ListedFile};
pub use change_listing::PathChange;
pub use error::{SnapshotError, StoreFailure, StoreFailureKind};
pub use handle::{SnapshotHandle, SnapshotOptions};
pub use protocol::{EvictionRequest, GcOutcome, GcRequest};
pub use verify::{DamagedObject, VerifyReport};
