//! The one database of Turnstone: an event log that is the truth, and tables that index it.
//!
//! Owns SQLite, the blob folder and the owner files below the data directory. Knows no git, no
//! HTTP, no wire names and no async runtime. A consumer of changes reads the log from a
//! cursor and waits on [`CommitWatch`].

mod actor_name;
mod backup;
mod blob;
mod checksum;
mod commit_watch;
mod connection;
mod consumer;
mod data_layout;
mod database_creation;
mod database_open;
mod deletion_traces;
mod disk_usage;
mod doctor;
mod error;
mod event_append;
mod full_disk;
mod idempotency;
mod lease_owner;
mod log_compaction;
mod maintenance;
mod migration;
mod mutation;
mod network_fs;
mod payload;
mod projection;
mod projection_check;
mod purge;
mod read;
mod rebuild;
mod redaction;
mod replay;
mod salvage;
mod schema;
mod search;
mod store;
mod table_row_ids;
mod turn_recovery;
mod tx;
mod writer;
mod writer_job;

pub use backup::BackupReport;
pub use blob::BlobHash;
pub use commit_watch::{CommitMark, CommitWatch};
pub use consumer::{ConsumerMutations, ConsumerQueries, LogConsumer, MAX_LAG_BYTES, MAX_LAG_MS};
pub use data_layout::DataLayout;
pub use disk_usage::{ConsumerBacklog, DatabaseSizes, EventKindSize, SessionSize};
pub use doctor::{Diagnosis, Finding, Severity, diagnose};
pub use error::{DatabaseOpenError, Result, StoreError};
pub use idempotency::{IdempotencyKeys, IdempotencyRecord};
pub use lease_owner::{LeaseMutations, LeaseRequest, LeaseTakeoverPolicy, SessionLeases};
pub use maintenance::{
    DatabaseMaintenance, DatabaseMaintenanceReport, MaintenanceBudget, MaintenanceLimits,
};
pub use mutation::{
    ChangeSetMutations, CloseChangeSet, CopyChangeSet, EndTurn, ExpectedPosition,
    FinishedOperation, GuardExpiry, HeadMoveObstacle, ImportedTurnEnd, MessageMutations,
    NewChangeSet, NewOperation, NewPart, NewTurn, OperationMutations, ProjectMutations,
    PromptDelivery, PromptMutations, PromptReceipt, ReplicationOutcome, RequestMutations,
    SessionMutations, ShareMutations, ShareRecord, SyncMutations, TurnEndOutcome, TurnExpiry,
    TurnMutations, UndoExpiryMutations, UnrevokedShare,
};
pub use projection_check::ProjectionMismatch;
pub use purge::{DeletionReport, PendingDeletion};
pub use read::{
    ChangeSetQueries, ChangeSetRow, CreationFilter, ExpiredTurn, FeedBody, FeedCache, FeedEvent,
    FeedPage, FeedQueries, FeedSession, GuardPin, HeadDelta, HistoricalSession, HistoryQueries,
    ListWindow, ListedSession, LogEvent, LogPage, LogQueries, LogTail, MessageOutlineRow,
    MessagePage, MessagePageJson, MessageQueries, MessageWithParts, OperationEnd, OperationQueries,
    OperationRow, PageQueries, PartRenderer, ProjectQueries, ProjectTurnRow, PromptQueries,
    PromptStatus, ReadTx, RequestQueries, ScanDirection, SessionAtBoundary, SessionDelta,
    SessionFilter, SessionPage, SessionQueries, SessionRow, ShareQueries, StreamBoundary, SyncBody,
    SyncEvent, SyncQueries, TextDelta, TurnQueries, TurnRow, UndoExpiryQueries, UnfinishedExpiry,
    WireJsonQueries,
};
pub use rebuild::{RebuildProgress, RebuildReport};
pub use redaction::RedactionReport;
pub use salvage::{DamagedSession, SalvageReport, TableSalvageCounts, salvage};
pub use search::{
    IndexLag, SearchFilter, SearchHit, SearchIndexSize, SearchKind, SearchPage, SearchQuery,
    SessionSearch, Snippet,
};
pub use store::{Options, Store};
pub use turn_recovery::TurnRecoveryReport;
pub use turnstone_core::call_context::{Actor, ActorError, Context, Lease, OwnerId};
pub use tx::{EventPosition, Tx, WriteOutcome};
pub use writer::WriterStats;
pub use writer_job::PendingWrite;
