//! A vault, open: asks itself if it keeps the store, and the keeper if it does not.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_core::time::EpochMillis;

use super::client::{self, RequestError};
use super::error::{SnapshotError, StoreFailure, StoreFailureKind};
use super::protocol::{
    CaptureSummary, GcOutcome, GcRequest, PROTOCOL_VERSION, RequestEnvelope, StoreRequest,
    StoreResponse,
};
use super::request_handler::{handle_request, run_maintenance};
use super::socket;
use super::store_owner::{StoreOwner, open_worktree};
use crate::capture::{Capture, CaptureOutcome};
use crate::capture_selection::CaptureSelection;
use crate::change_journal::JournalStatus;
use crate::journal_audit::JournalAudit;
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::registry::{StoreLocation, StoreRegistry};
use crate::repack::MaintenanceInterval;
use crate::restore::{OperationId, OperationRequest, RestorePlan, RestoreReport, TargetState};
use crate::snapshot_store::SnapshotStore;
use crate::storage_budget::StorageBudget;
use crate::worktree::{RootPolicy, Worktree};

/// How long a kept store is asked for before it is called unreachable: so many times, so long apart.
const DISPATCH_ATTEMPTS: u32 = 500;
const DISPATCH_PAUSE: Duration = Duration::from_millis(20);

/// How a vault is opened.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// What is captured.
    pub selection: CaptureSelection,
    /// Which roots are refused.
    pub policy: RootPolicy,
    /// True to make a store for a directory that has none.
    pub create_store: bool,
    /// How much may be stored; the folder of all stores is filled in.
    pub budget: StorageBudget,
    /// How long a keeper may take for one request.
    pub request_timeout: Duration,
}

impl SnapshotOptions {
    /// What is captured of a worktree: never the data directory, should it lie there.
    pub(super) fn selection_for(&self, worktree: &Worktree, data: &Path) -> CaptureSelection {
        let mut selection = self.selection.clone();
        selection.own_data = selection.own_data.or_else(|| worktree.relative_path_of(data));
        selection
    }
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            selection: CaptureSelection::default(),
            policy: RootPolicy::default(),
            create_store: true,
            budget: StorageBudget::default(),
            request_timeout: Duration::from_secs(1800),
        }
    }
}

/// The store of a directory, for whoever wants something of it.
pub struct SnapshotHandle {
    location: StoreLocation,
    data: PathBuf,
    socket: PathBuf,
    options: SnapshotOptions,
    /// When it was opened.
    opened: EpochMillis,
    role: Mutex<HandleRole>,
}

/// Which side of the socket this process is on.
#[derive(Clone)]
enum HandleRole {
    Owner(Arc<StoreOwner>),
    /// Reads by itself, once somebody has made the store.
    Reader(Option<Arc<SnapshotStore>>),
}

impl SnapshotHandle {
    /// Opens the store of `directory`; this process becomes its keeper if nobody is (R11).
    ///
    /// `runtime` is where the socket goes: a directory of this user's that is closed to others, made
    /// if need be; without one, a folder in the data directory.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn open(
        data: &Path,
        runtime: Option<&Path>,
        directory: &Path,
        options: SnapshotOptions,
        now: EpochMillis,
    ) -> Result<Self, SnapshotError> {
        let registry = StoreRegistry::new(data);
        let found = match options.create_store {
            true => Some(registry.open_store(directory, &options.policy, now)?),
            false => match registry.find_store(directory, &options.policy)? {
                Some(_) => Some(registry.open_store(directory, &options.policy, now)?),
                None => None,
            },
        };
        let (mut place, _) = found.ok_or_else(|| SnapshotError::Untracked(directory.to_owned()))?;
        place.folder = fs_err::canonicalize(&place.folder)?;
        let data = fs_err::canonicalize(data)?;
        let runtime = runtime.map_or_else(|| data.join("run"), Path::to_owned);
        let socket = socket::socket_path(&runtime, &place.folder)?;
        let side = Mutex::new(HandleRole::Reader(None));
        let vault = Self { location: place, data, socket, options, opened: now, role: side };
        vault.try_acquire(now)?;
        Ok(vault)
    }

    /// Which store it is, and how it was found.
    #[must_use]
    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// True if this process keeps the store.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        matches!(&*self.lock_role(), HandleRole::Owner(_))
    }

    /// True if this process keeps the store and others can ask it.
    #[must_use]
    pub fn is_serving_clients(&self) -> bool {
        matches!(&*self.lock_role(), HandleRole::Owner(keeper) if keeper.is_serving_clients())
    }

    /// Restores that were cut off and that this process finished when it became the keeper.
    #[must_use]
    pub fn resumed_restores(&self) -> Vec<RestoreReport> {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => keeper.resumed_restores.clone(),
            HandleRole::Reader(_) => Vec::new(),
        }
    }

    /// Becomes the keeper if nobody is; returns whether this process is the keeper now.
    ///
    /// # Errors
    ///
    /// The store cannot be opened, or what was cut off not be finished.
    pub fn try_acquire(&self, now: EpochMillis) -> Result<bool, SnapshotError> {
        let mut side = self.lock_role();
        if let HandleRole::Reader(_) = &*side {
            let Self { location: place, options, data, socket, .. } = self;
            if let Some(keeper) = StoreOwner::try_acquire(place, options, data, socket, now)? {
                *side = HandleRole::Owner(Arc::new(keeper));
            }
        }
        Ok(matches!(&*side, HandleRole::Owner(_)))
    }

    fn lock_role(&self) -> MutexGuard<'_, HandleRole> {
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, to read from.
    pub(super) fn store(&self) -> Result<Arc<SnapshotStore>, SnapshotError> {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => return Ok(keeper.shadow.clone()),
            HandleRole::Reader(Some(shadow)) => return Ok(shadow.clone()),
            HandleRole::Reader(None) => {}
        }
        // A keeper that answers has made it; perhaps this process is the keeper afterwards.
        self.dispatch(&StoreRequest::Hello, self.opened)?;
        let mut side = self.lock_role();
        match &mut *side {
            HandleRole::Owner(keeper) => Ok(keeper.shadow.clone()),
            HandleRole::Reader(reader) => {
                let (folder, worktree) = (&self.location.folder, open_worktree(&self.location)?);
                let selection = self.options.selection_for(&worktree, &self.data);
                let shadow = SnapshotStore::open_read_only(folder, worktree, selection)?;
                Ok(reader.insert(Arc::new(shadow)).clone())
            }
        }
    }

    /// Does it, or lets the keeper do it; takes over if the keeper ends before it answers.
    pub(super) fn dispatch(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<StoreResponse, SnapshotError> {
        let envelope = || RequestEnvelope {
            version: PROTOCOL_VERSION,
            store: self.location.id.to_string(),
            request: request.clone(),
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..DISPATCH_ATTEMPTS {
            self.try_acquire(now)?;
            let side = self.lock_role().clone();
            if let HandleRole::Owner(keeper) = side {
                return handle_request(&keeper.shadow, request);
            }
            let path = socket::read_socket_path(&self.location.folder, &self.socket);
            match client::send_request(&path, &envelope(), self.options.request_timeout) {
                Ok(answer) => return Ok(answer),
                Err(RequestError::Refused(failure)) => return Err(failure.into()),
                Err(RequestError::TimedOut(source)) => return Err(self.unreachable_error(source)),
                Err(RequestError::Unavailable(error)) => last = error,
            }
            std::thread::sleep(DISPATCH_PAUSE);
        }
        Err(self.unreachable_error(last))
    }

    fn unreachable_error(&self, source: io::Error) -> SnapshotError {
        SnapshotError::Unreachable { who: self.owner_description(), source }
    }

    /// What the keeper says of itself; for messages only.
    #[must_use]
    pub fn owner_description(&self) -> String {
        let text = fs_err::read_to_string(self.location.folder.join("keeper")).unwrap_or_default();
        text.split(',').next().unwrap_or_default().to_owned()
    }
}

/// An answer to another question: a keeper that does that is not of this version.
pub(super) fn unexpected_response() -> SnapshotError {
    StoreFailure::new(StoreFailureKind::Malformed, "the keeper answered another question").into()
}

impl SnapshotHandle {
    /// Captures the whole worktree and pins it in `group`.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn capture(
        &self,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, SnapshotError> {
        let group = group.name().to_owned();
        self.request_capture(&StoreRequest::Capture { group, now }, now)
    }

    /// Captures some paths, whatever the rules say of them (R6).
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn capture_named(
        &self,
        group: &PinGroup,
        paths: &BTreeSet<RelPath>,
        keep: bool,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, SnapshotError> {
        let (group, paths) = (group.name().to_owned(), paths.iter().cloned().collect());
        self.request_capture(&StoreRequest::CaptureNamed { group, paths, keep, now }, now)
    }

    fn request_capture(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, SnapshotError> {
        let StoreResponse::Captured(receipt) = self.dispatch(request, now)? else {
            return Err(unexpected_response());
        };
        let CaptureSummary { id, files, changed, reused, mode, journal, is_new } = receipt;
        let capture = self.store()?.get_capture(&id)?;
        Ok(CaptureOutcome { capture, files, changed, reused, mode, journal, is_new })
    }

    /// Plans to make the worktree, or some paths of it, equal to a capture.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn plan_restore(
        &self,
        target: &Capture,
        paths: Option<&BTreeSet<RelPath>>,
        keep_added: bool,
        now: EpochMillis,
    ) -> Result<RestorePlan, SnapshotError> {
        let paths = paths.map(|paths| paths.iter().cloned().collect());
        let request = StoreRequest::PlanRestore { target: target.id, paths, keep_added, now };
        self.request_plan(&request, now)
    }

    /// Plans to bring paths to what is wished, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn plan_targets(
        &self,
        wishes: &[TargetState],
        now: EpochMillis,
    ) -> Result<RestorePlan, SnapshotError> {
        self.request_plan(&StoreRequest::Plan { wishes: wishes.to_vec() }, now)
    }

    /// Plans to take an operation back, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn plan_undo(
        &self,
        operation: &OperationId,
        now: EpochMillis,
    ) -> Result<RestorePlan, SnapshotError> {
        self.request_plan(&StoreRequest::PlanUndo { operation: operation.clone() }, now)
    }

    fn request_plan(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<RestorePlan, SnapshotError> {
        let StoreResponse::Planned(plan) = self.dispatch(request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*plan)
    }

    /// Carries an order out, once, however often it is asked for.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn apply_once(
        &self,
        order: &OperationRequest,
        now: EpochMillis,
    ) -> Result<RestoreReport, SnapshotError> {
        let request = StoreRequest::Apply { order: Box::new(order.clone()), now };
        let StoreResponse::Applied(report) = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*report)
    }

    /// Lets old captures go, and what nobody pins.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn collect_garbage(&self, sweep: &GcRequest) -> Result<GcOutcome, SnapshotError> {
        let StoreResponse::Collected(swept) =
            self.dispatch(&StoreRequest::Gc(sweep.clone()), sweep.now)?
        else {
            return Err(unexpected_response());
        };
        Ok(*swept)
    }

    /// Does upkeep if this process keeps the store and it is time; nothing otherwise (R41).
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing is lost then.
    pub fn maintain_if_due(
        &self,
        cadence: MaintenanceInterval,
        sweep: &GcRequest,
    ) -> Result<Option<GcOutcome>, SnapshotError> {
        let side = self.lock_role().clone();
        match side {
            HandleRole::Owner(keeper) if cadence.is_due(keeper.shadow.last_gc(), sweep.now) => {
                Ok(Some(run_maintenance(&keeper.shadow, sweep)?))
            }
            HandleRole::Owner(_) | HandleRole::Reader(_) => Ok(None),
        }
    }

    /// Starts the journal, so that captures cost what changed; nothing if somebody else keeps the store.
    #[must_use]
    pub fn start_journal(&self) -> Option<JournalStatus> {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => Some(keeper.shadow.start_journal()),
            HandleRole::Reader(_) => None,
        }
    }

    /// How many files the last capture of the whole worktree had; zero if this process does not know.
    #[must_use]
    pub fn known_file_count(&self) -> usize {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => keeper.shadow.lock_worktree_index().file_count(),
            HandleRole::Reader(_) => 0,
        }
    }

    /// Audits the journal (R8); nothing if it is somebody else's business.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_journal(&self, now: EpochMillis) -> Result<Option<JournalAudit>, SnapshotError> {
        let side = self.lock_role().clone();
        match side {
            HandleRole::Owner(keeper) => Ok(Some(keeper.shadow.audit_journal(now)?)),
            HandleRole::Reader(_) => Ok(None),
        }
    }

    /// Audits the journal if that is due (R8); nothing if it is not, or somebody else's business.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_journal_if_due(
        &self,
        now: EpochMillis,
    ) -> Result<Option<JournalAudit>, SnapshotError> {
        let side = self.lock_role().clone();
        match side {
            HandleRole::Owner(keeper) if keeper.shadow.is_audit_due(now) => {
                Ok(Some(keeper.shadow.audit_journal(now)?))
            }
            HandleRole::Owner(_) | HandleRole::Reader(_) => Ok(None),
        }
    }

    /// Tells whether this process keeps the store and upkeep is due.
    #[must_use]
    pub fn is_maintenance_due(&self, cadence: MaintenanceInterval, now: EpochMillis) -> bool {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => cadence.is_due(keeper.shadow.last_gc(), now),
            HandleRole::Reader(_) => false,
        }
    }

    /// How many objects this process has stored so far, to show that something happens.
    #[must_use]
    pub fn stored_object_count(&self) -> u64 {
        match &*self.lock_role() {
            HandleRole::Owner(keeper) => keeper.shadow.stored_object_count(),
            HandleRole::Reader(_) => 0,
        }
    }
}
