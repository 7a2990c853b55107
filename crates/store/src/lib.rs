//! The one database of Turnstone: an event log that is the truth, and tables that index it.
//!
//! Owns SQLite, the blob folder and the owner files below the data directory. Knows no git, no
//! HTTP, no wire names and no async runtime. Whoever wants to hear of a change reads the log from a
//! cursor and waits on [`Watch`].

mod apply;
mod backup;
mod blob;
mod compact;
mod connection;
mod consumer;
mod context;
mod doctor;
mod error;
mod identity;
mod job;
mod layout;
mod maintain;
mod migrate;
mod mutate;
mod once;
mod owner;
mod payload;
mod place;
mod purge;
mod read;
mod rebuild;
mod recover;
mod redact;
mod replay;
mod salvage;
mod schema;
mod search;
mod size;
mod store;
mod sum;
mod tx;
mod verify;
mod watch;
mod writer;

pub use backup::BackupReport;
pub use blob::BlobHash;
pub use consumer::{Consumer, LAG_BYTES, LAG_MS};
pub use context::{Actor, ActorError, Context, Lease, OwnerId};
pub use doctor::{Diagnosis, Finding, Severity, doctor};
pub use error::{OpenError, Result, StoreError};
pub use job::Ticket;
pub use layout::Layout;
pub use maintain::{Budget, Maintained, Upkeep};
pub use mutate::{
    Admitted, CloseChange, CopyChange, Delivery, DoneOperation, EndTurn, Ended, Expiring,
    ExpiringGuards, NewOperation, NewPart, NewTurn, OpenChange, Replicated, ShareRecord,
};
pub use once::Recall;
pub use owner::Takeover;
pub use purge::Deleted;
pub use read::{
    Boundary, ChangeRow, Delta, Expired, Fate, FeedBody, FeedEvent, FeedMemo, FeedPage,
    FeedSession, Guarding, HeadShift, LogEvent, LogPage, MessagePage, OperationEnd, OperationRow,
    Outline, PartView, Reader, SessionAt, SessionFilter, SessionPage, SessionRow, SessionShift,
    SessionThen, ShownPage, ShownSession, SyncBody, SyncEvent, Tail, TurnRow, Unfinished,
    WithParts,
};
pub use rebuild::{RebuildProgress, Rebuilt};
pub use recover::Recovered;
pub use redact::Redacted;
pub use salvage::{DamagedSession, Salvaged, Tally, salvage};
pub use search::{
    Indexed, SearchFilter, SearchHit, SearchKind, SearchPage, SearchQuery, SearchSize, Snippet,
};
pub use size::{ConsumerSize, KindSize, SessionSize, Sizes};
pub use store::{Options, Store};
pub use tx::{Appended, Changed, Tx};
pub use verify::Mismatch;
pub use watch::{Mark, Watch};
pub use writer::WriterStats;
