//! The one database of Turnstone: an event log that is the truth, and tables that index it.
//!
//! Owns SQLite, the blob folder and the owner files below the data directory. Knows no git, no
//! HTTP, no wire names and no async runtime. Whoever wants to hear of a change reads the log from a
//! cursor and waits on [`Watch`].

mod apply;
mod backup;
mod blob;
mod connection;
mod context;
mod doctor;
mod error;
mod layout;
mod migrate;
mod mutate;
mod owner;
mod payload;
mod place;
mod read;
mod rebuild;
mod recover;
mod replay;
mod salvage;
mod schema;
mod store;
mod sum;
mod tx;
mod verify;
mod watch;
mod writer;

pub use backup::BackupReport;
pub use blob::BlobHash;
pub use context::{Actor, ActorError, Context, Lease, OwnerId};
pub use doctor::{Diagnosis, Finding, Severity, doctor};
pub use error::{OpenError, Result, StoreError};
pub use layout::Layout;
pub use mutate::{Admitted, Delivery, EndTurn, Ended, NewTurn, ShareRecord};
pub use owner::Takeover;
pub use read::{
    Delta, LogEvent, LogPage, MessagePage, Reader, SessionFilter, SessionPage, SessionRow, Tail,
    TurnRow, WithParts,
};
pub use rebuild::{RebuildProgress, Rebuilt};
pub use recover::Recovered;
pub use salvage::{DamagedSession, Salvaged, Tally, salvage};
pub use store::{Options, Store};
pub use tx::{Appended, Changed, Tx};
pub use verify::Mismatch;
pub use watch::{Mark, Watch};
pub use writer::{Ticket, WriterStats};
