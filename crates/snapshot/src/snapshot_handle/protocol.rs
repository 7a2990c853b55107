//! Requests to the store owner and its responses. Both are sent as JSON.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use super::error::StoreFailure;
use super::store_status::StoreStatus;
use crate::capture::{CaptureMode, CaptureOutcome};
use crate::capture_expiry::ExpiryStep;
use crate::eviction::{EvictionReport, EvictionRequest};
use crate::file_watch::JournalState;
use crate::foreign_snapshots::{AdoptedStep, RecordedStep};
use crate::gc::GcReport;
use crate::object_store::Oid;
use crate::path::RelPath;
use crate::restore::{
    ConditionalWrite, OperationRequest, RestoreOperationId, RestorePlan, RestoreReport,
    TargetState, WrittenPath,
};

/// The version of requests and responses; the owner refuses any other.
pub(super) const PROTOCOL_VERSION: u32 = 7;

/// A request, and who it is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RequestEnvelope {
    pub(super) version: u32,
    /// The store; a socket that was meant for another one refuses.
    pub(super) store: String,
    pub(super) request: StoreRequest,
}

/// What only the owner can do.
///
/// Each may be sent twice: a capture or a plan that is not used does no harm, and an
/// operation carries the id under which it is carried out once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoreRequest {
    /// Write files for a tool.
    Write {
        /// The files.
        writes: Vec<ConditionalWrite>,
        /// The capture that holds their present bytes.
        guard: Oid,
    },
    /// Tells nothing but that it is there.
    Hello,
    /// Report the journal and the memory that the worktree takes.
    Status,
    Capture {
        group: String,
        now: EpochMillis,
    },
    CaptureNamed {
        group: String,
        paths: Vec<RelPath>,
        keep: bool,
        now: EpochMillis,
    },
    /// Capture what a tool wrote.
    CaptureWritten {
        group: String,
        written: Vec<WrittenPath>,
        now: EpochMillis,
    },
    PlanRestore {
        target: Oid,
        paths: Option<Vec<RelPath>>,
        keep_added: bool,
        now: EpochMillis,
    },
    Plan {
        #[serde(rename = "wishes")]
        targets: Vec<TargetState>,
    },
    PlanUndo {
        operation: RestoreOperationId,
    },
    Apply {
        #[serde(rename = "order")]
        operation: Box<OperationRequest>,
        now: EpochMillis,
    },
    Gc(GcRequest),
    Relieve(EvictionRequest),
    Measure {
        steps: Vec<ExpiryStep>,
    },
    Expire {
        steps: Vec<ExpiryStep>,
        need: EvictionRequest,
    },
    BeginForget {
        patterns: Vec<String>,
    },
    FinishForget {
        now: EpochMillis,
    },
    Pin {
        captures: Vec<Oid>,
        group: String,
    },
    /// Take captures over from another store.
    Copy {
        /// The folder of that store.
        store: PathBuf,
        /// The worktree it belongs to.
        root: PathBuf,
        captures: Vec<Oid>,
        group: String,
    },
    /// Take over what steps of another program recorded.
    Adopt {
        /// The repositories that may have it.
        repositories: Vec<PathBuf>,
        steps: Vec<RecordedStep>,
        group: String,
        now: EpochMillis,
    },
}

/// What is to be collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcRequest {
    /// Live groups by name: their captures stay whatever their age.
    pub live: BTreeSet<String>,
    /// Groups of deleted sessions by name: they go whatever their age, and with them the captures that were only
    /// made to look at the worktree.
    #[serde(default)]
    pub deleted: BTreeSet<String>,
    /// How long captures of other groups are kept, in milliseconds (R41).
    pub keep: i64,
    /// About how many bytes are copied at most.
    pub effort: u64,
    /// Nothing is changed; the report is that of a run.
    pub dry_run: bool,
    /// The current time.
    pub now: EpochMillis,
}

/// What the owner answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoreResponse {
    Hello,
    Status(StoreStatus),
    Captured(CaptureSummary),
    Planned(Box<RestorePlan>),
    Applied(Box<RestoreReport>),
    Collected(Box<GcOutcome>),
    Relieved(Box<EvictionReport>),
    Measured { freed: Vec<u64> },
    Forgotten { captures: usize },
    Pinned { missing: Vec<Oid> },
    Adopted { steps: Vec<AdoptedStep> },
    Failed(StoreFailure),
}

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcOutcome {
    /// Captures that were too old, of groups that stay.
    pub expired: usize,
    /// What became of the rest.
    #[serde(flatten)]
    pub gc: GcReport,
}

/// A capture, without what the caller can read itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CaptureSummary {
    pub(super) id: Oid,
    pub(super) files: usize,
    pub(super) changed: usize,
    pub(super) reused: usize,
    pub(super) mode: CaptureMode,
    pub(super) journal: JournalState,
    pub(super) is_new: bool,
}

impl From<&CaptureOutcome> for CaptureSummary {
    fn from(captured: &CaptureOutcome) -> Self {
        Self {
            id: captured.capture.id,
            files: captured.files,
            changed: captured.changed,
            reused: captured.reused,
            mode: captured.mode,
            journal: captured.journal,
            is_new: captured.is_new,
        }
    }
}
