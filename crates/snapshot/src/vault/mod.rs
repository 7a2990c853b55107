//! The vault: one face of a directory's store, for its keeper and for everybody else (R11).
//!
//! Whoever holds the store's lock is its keeper and does the work itself, for others too, who ask it
//! over a socket. Whoever finds it kept reads by itself and lets the keeper write; when the keeper
//! ends, the next one who asks takes over. The same methods, the same answers, both ways.

mod client;
mod compare;
mod copy;
mod error;
mod frame;
mod keeper;
mod listing;
mod open;
mod pin;
mod read;
mod request;
mod server;
mod socket;
mod verify;
mod work;
mod write;

pub use compare::PathChange;
pub use error::{Failure, FailureKind, VaultError};
pub use listing::{ListedCapture, ListedFile};
pub use open::{Vault, VaultOptions};
pub use request::{Sweep, Swept};
pub use verify::{Damage, Verified};
