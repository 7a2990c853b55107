//! An open handle: the owner does the work itself, other processes send requests to it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_core::time::EpochMillis;

use super::client::{self, RequestError};
use super::error::{SnapshotError, StoreFailure, StoreFailureKind};
use super::maintenance::SnapshotMaintenance;
use super::protocol::{
    CaptureSummary, PROTOCOL_VERSION, RequestEnvelope, StoreRequest, StoreResponse,
};
use super::read::SnapshotReader;
use super::request_handler::handle_request;
use super::socket;
use super::store_owner::{StoreOwner, open_worktree};
use crate::capture::{Capture, CaptureOutcome};
use crate::capture_rules::CaptureRules;
use crate::object_store::Oid;
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::registry::{StoreId, StoreLocation, StoreRegistry};
use crate::restore::{
    ConditionalWrite, OperationRequest, RestoreOperationId, RestorePlan, RestoreReport,
    TargetState, WrittenPath,
};
use crate::snapshot_store::SnapshotStore;
use crate::storage_budget::StorageBudget;
use crate::worktree::{RootPolicy, Worktree};

/// How often and at which interval the store owner is tried before it counts as unreachable.
const DISPATCH_ATTEMPTS: u32 = 500;
const DISPATCH_PAUSE: Duration = Duration::from_millis(20);
/// How long the owner may take to report its status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// How a snapshot handle is opened.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// What is captured.
    pub selection: CaptureRules,
    /// Which roots are refused.
    pub policy: RootPolicy,
    /// True to make a store for a directory that has none.
    pub create_store: bool,
    /// How much may be stored; the folder of all stores is filled in.
    pub budget: StorageBudget,
    /// How long the owner may take for one request.
    pub request_timeout: Duration,
}

impl SnapshotOptions {
    /// What is captured of a worktree: never the data directory, should it lie there.
    pub(super) fn selection_for(&self, worktree: &Worktree, data: &Path) -> CaptureRules {
        let mut selection = self.selection.clone();
        selection.own_data = selection.own_data.or_else(|| worktree.relative_path_of(data));
        selection
    }
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            selection: CaptureRules::default(),
            policy: RootPolicy::default(),
            create_store: true,
            budget: StorageBudget::default(),
            request_timeout: Duration::from_secs(1800),
        }
    }
}

/// The store of a directory, used by its owner or by another process.
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
pub(super) enum HandleRole {
    Owner(Arc<StoreOwner>),
    /// Reads the store directly, once it exists.
    Reader(Option<Arc<SnapshotStore>>),
}

impl SnapshotHandle {
    /// Opens the store of `directory`; this process becomes its owner if no other process is (R11).
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
        let (location, _) = found.ok_or_else(|| SnapshotError::Untracked(directory.to_owned()))?;
        Self::open_at(location, data, runtime, options, now)
    }

    /// Opens a store by its id: its root may have another one, which is found by path.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn open_by_id(
        data: &Path,
        runtime: Option<&Path>,
        id: &StoreId,
        options: SnapshotOptions,
        now: EpochMillis,
    ) -> Result<Self, SnapshotError> {
        let found = StoreRegistry::new(data).find_store_by_id(id)?;
        let location = found.ok_or_else(|| SnapshotError::Untracked(data.join(id.as_str())))?;
        Self::open_at(location, data, runtime, options, now)
    }

    fn open_at(
        mut location: StoreLocation,
        data: &Path,
        runtime: Option<&Path>,
        options: SnapshotOptions,
        now: EpochMillis,
    ) -> Result<Self, SnapshotError> {
        location.folder = fs_err::canonicalize(&location.folder)?;
        let data = fs_err::canonicalize(data)?;
        let runtime = runtime.map_or_else(|| data.join("run"), Path::to_owned);
        let socket = socket::socket_path(&runtime, &location.folder)?;
        let role = Mutex::new(HandleRole::Reader(None));
        let handle = Self { location, data, socket, options, opened: now, role };
        handle.try_acquire(now)?;
        Ok(handle)
    }

    /// Which store it is, and how it was found.
    #[must_use]
    pub fn location(&self) -> &StoreLocation {
        &self.location
    }

    /// True if this process owns the store.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        matches!(&*self.lock_role(), HandleRole::Owner(_))
    }

    /// True if this process owns the store and accepts requests.
    #[must_use]
    pub fn is_serving_clients(&self) -> bool {
        matches!(&*self.lock_role(), HandleRole::Owner(owner) if owner.is_serving_clients())
    }

    /// Interrupted restores that this process finished when it became the owner.
    #[must_use]
    pub fn resumed_restores(&self) -> Vec<RestoreReport> {
        match &*self.lock_role() {
            HandleRole::Owner(owner) => owner.resumed_restores.clone(),
            HandleRole::Reader(_) => Vec::new(),
        }
    }

    /// Becomes the owner if no other process is; returns whether this process owns the store now.
    ///
    /// # Errors
    ///
    /// The store cannot be opened, or what was cut off not be finished.
    pub fn try_acquire(&self, now: EpochMillis) -> Result<bool, SnapshotError> {
        let mut role = self.lock_role();
        if let HandleRole::Reader(_) = &*role {
            let Self { location, options, data, socket, .. } = self;
            if let Some(owner) = StoreOwner::try_acquire(location, options, data, socket, now)? {
                *role = HandleRole::Owner(Arc::new(owner));
            }
        }
        Ok(matches!(&*role, HandleRole::Owner(_)))
    }

    /// Reads the store and its worktree; every process may.
    #[must_use]
    pub fn reader(&self) -> SnapshotReader<'_> {
        SnapshotReader { handle: self }
    }

    /// Keeps the store small and its journal honest.
    #[must_use]
    pub fn maintenance(&self) -> SnapshotMaintenance<'_> {
        SnapshotMaintenance { handle: self }
    }

    pub(super) fn lock_role(&self) -> MutexGuard<'_, HandleRole> {
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, to read from.
    pub(super) fn store(&self) -> Result<Arc<SnapshotStore>, SnapshotError> {
        match &*self.lock_role() {
            HandleRole::Owner(owner) => return Ok(owner.store.clone()),
            HandleRole::Reader(Some(store)) => return Ok(store.clone()),
            HandleRole::Reader(None) => {}
        }
        // An owner that answers has created it; perhaps this process is the owner afterwards.
        self.dispatch(&StoreRequest::Hello, self.opened)?;
        let mut role = self.lock_role();
        match &mut *role {
            HandleRole::Owner(owner) => Ok(owner.store.clone()),
            HandleRole::Reader(reader) => {
                let (folder, worktree) = (&self.location.folder, open_worktree(&self.location)?);
                let selection = self.options.selection_for(&worktree, &self.data);
                let store = SnapshotStore::open_read_only(folder, worktree, selection)?;
                Ok(reader.insert(Arc::new(store)).clone())
            }
        }
    }

    /// Handles a request, or sends it to the owner; takes over if the owner ends before it answers.
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
            let role = self.lock_role().clone();
            if let HandleRole::Owner(owner) = role {
                return handle_request(&owner.store, request);
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

    /// Sends a request to the owner once; this process does not become the owner.
    pub(super) fn ask_owner(&self, request: &StoreRequest) -> Result<StoreResponse, SnapshotError> {
        let store = self.location.id.to_string();
        let envelope =
            RequestEnvelope { version: PROTOCOL_VERSION, store, request: request.clone() };
        let path = socket::read_socket_path(&self.location.folder, &self.socket);
        match client::send_request(&path, &envelope, STATUS_TIMEOUT) {
            Ok(answer) => Ok(answer),
            Err(RequestError::Refused(failure)) => Err(failure.into()),
            Err(RequestError::TimedOut(error) | RequestError::Unavailable(error)) => {
                Err(self.unreachable_error(error))
            }
        }
    }

    fn unreachable_error(&self, source: io::Error) -> SnapshotError {
        SnapshotError::Unreachable { who: self.owner_description(), source }
    }

    /// How the owner describes itself; for messages only.
    #[must_use]
    pub fn owner_description(&self) -> String {
        let text = fs_err::read_to_string(self.location.folder.join("keeper")).unwrap_or_default();
        text.split(',').next().unwrap_or_default().to_owned()
    }
}

/// A response of the wrong kind: the owner runs another version.
pub(super) fn unexpected_response() -> SnapshotError {
    StoreFailure::new(StoreFailureKind::Malformed, "the store owner sent an unexpected response")
        .into()
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

    /// Captures some paths, whatever the rules say (R6).
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

    /// Captures paths as a tool left them, whatever is on the disk now.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn capture_written(
        &self,
        group: &PinGroup,
        written: &[WrittenPath],
        now: EpochMillis,
    ) -> Result<CaptureOutcome, SnapshotError> {
        let (group, written) = (group.name().to_owned(), written.to_vec());
        self.request_capture(&StoreRequest::CaptureWritten { group, written, now }, now)
    }

    fn request_capture(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, SnapshotError> {
        let StoreResponse::Captured(summary) = self.dispatch(request, now)? else {
            return Err(unexpected_response());
        };
        let CaptureSummary { id, files, changed, reused, mode, journal, is_new } = summary;
        let capture = self.store()?.captures().get(&id)?;
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

    /// Plans to bring paths to their targets, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn plan_targets(
        &self,
        targets: &[TargetState],
        now: EpochMillis,
    ) -> Result<RestorePlan, SnapshotError> {
        self.request_plan(&StoreRequest::Plan { targets: targets.to_vec() }, now)
    }

    /// Plans to undo an operation, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn plan_undo(
        &self,
        operation: &RestoreOperationId,
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

    /// Carries an operation out, once, however often it is asked for.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn apply_once(
        &self,
        operation: &OperationRequest,
        now: EpochMillis,
    ) -> Result<RestoreReport, SnapshotError> {
        let request = StoreRequest::Apply { operation: Box::new(operation.clone()), now };
        let StoreResponse::Applied(report) = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*report)
    }

    /// Writes files that still hold what the writer expects; the others are conflicts (R15).
    ///
    /// `guard` is a capture of these paths: nothing is written whose present bytes are not in it.
    ///
    /// # Errors
    ///
    /// As [`crate::RestoreRunner::write_files`].
    pub fn write_files(
        &self,
        writes: &[ConditionalWrite],
        guard: &Capture,
        now: EpochMillis,
    ) -> Result<RestoreReport, SnapshotError> {
        let request = StoreRequest::Write { writes: writes.to_vec(), guard: guard.id };
        let StoreResponse::Applied(report) = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*report)
    }

    /// As `GroupPins::pin`.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn pin_captures(
        &self,
        captures: &[Oid],
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<Vec<Oid>, SnapshotError> {
        let (captures, group) = (captures.to_vec(), group.name().to_owned());
        let StoreResponse::Pinned { missing } =
            self.dispatch(&StoreRequest::Pin { captures, group }, now)?
        else {
            return Err(unexpected_response());
        };
        Ok(missing)
    }

    /// Puts captures of another store into `group` of this one: all of them, or nothing.
    ///
    /// They are durable, with everything they need, when this returns: the other store may go.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a capture the other store no longer has is one.
    pub fn copy_captures(
        &self,
        from: &Self,
        captures: &[Oid],
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<(), SnapshotError> {
        let request = StoreRequest::Copy {
            store: from.location().folder.clone(),
            root: from.location().root.clone(),
            captures: captures.to_vec(),
            group: group.name().to_owned(),
        };
        let StoreResponse::Pinned { .. } = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(())
    }
}
