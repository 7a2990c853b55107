//! Maintenance of a store: garbage collection, eviction, forgetting and the journal.

use std::io;

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::{HandleRole, SnapshotHandle, unexpected_response};
use super::protocol::{GcOutcome, GcRequest, StoreRequest, StoreResponse};
use super::request_handler::run_maintenance;
use super::store_status::StoreStatus;
use crate::capture_expiry::ExpiryStep;
use crate::change_journal::JournalStatus;
use crate::eviction::{EvictionReport, EvictionRequest};
use crate::file_watch::JournalState;
use crate::journal_audit::JournalAudit;
use crate::repack::MaintenanceInterval;
use crate::storage_budget::disk_capacity;

/// What keeps a store small and fast.
pub struct SnapshotMaintenance<'h> {
    pub(super) handle: &'h SnapshotHandle,
}

impl SnapshotMaintenance<'_> {
    /// Expires old captures and drops objects that no group pins.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn collect_garbage(&self, request: &GcRequest) -> Result<GcOutcome, SnapshotError> {
        let StoreResponse::Collected(outcome) =
            self.handle.dispatch(&StoreRequest::Gc(request.clone()), request.now)?
        else {
            return Err(unexpected_response());
        };
        Ok(*outcome)
    }

    /// Runs maintenance if this process owns the store and it is due; `None` otherwise (R41).
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing is lost then.
    pub fn maintain_if_due(
        &self,
        interval: MaintenanceInterval,
        request: &GcRequest,
    ) -> Result<Option<GcOutcome>, SnapshotError> {
        let role = self.handle.lock_role().clone();
        match role {
            HandleRole::Owner(owner)
                if interval.is_due(owner.store.inspection().last_gc(), request.now) =>
            {
                Ok(Some(run_maintenance(&owner.store, request)?))
            }
            HandleRole::Owner(_) | HandleRole::Reader(_) => Ok(None),
        }
    }

    /// True if this process owns the store and maintenance is due.
    #[must_use]
    pub fn is_maintenance_due(&self, interval: MaintenanceInterval, now: EpochMillis) -> bool {
        match &*self.handle.lock_role() {
            HandleRole::Owner(owner) => interval.is_due(owner.store.inspection().last_gc(), now),
            HandleRole::Reader(_) => false,
        }
    }

    /// Starts the journal, so that captures cost what changed; `None` if another process owns the store.
    #[must_use]
    pub fn start_journal(&self) -> Option<JournalStatus> {
        match &*self.handle.lock_role() {
            HandleRole::Owner(owner) => Some(owner.store.journal().start()),
            HandleRole::Reader(_) => None,
        }
    }

    /// Audits the journal (R8); `None` if another process owns the store.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_journal(&self, now: EpochMillis) -> Result<Option<JournalAudit>, SnapshotError> {
        let role = self.handle.lock_role().clone();
        match role {
            HandleRole::Owner(owner) => Ok(Some(owner.store.journal().audit(now)?)),
            HandleRole::Reader(_) => Ok(None),
        }
    }

    /// Audits the journal if that is due (R8); `None` if it is not, or another process owns the store.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_journal_if_due(
        &self,
        now: EpochMillis,
    ) -> Result<Option<JournalAudit>, SnapshotError> {
        let role = self.handle.lock_role().clone();
        match role {
            HandleRole::Owner(owner) if owner.store.journal().is_audit_due(now) => {
                Ok(Some(owner.store.journal().audit(now)?))
            }
            HandleRole::Owner(_) | HandleRole::Reader(_) => Ok(None),
        }
    }

    /// Starts the journal if this process owns the store and has none: it may have become the owner after another
    /// process ended. One that cannot be had, or is distrusted, is not tried again.
    pub fn ensure_journal(&self) {
        let role = self.handle.lock_role().clone();
        if let HandleRole::Owner(owner) = role
            && owner.store.journal().status().state == JournalState::Off
        {
            owner.store.journal().start();
        }
    }

    /// The status of the store as its owner knows it. Asks the owner once, and does not wait for a capture.
    ///
    /// # Errors
    ///
    /// The owner cannot be asked.
    pub fn status(&self) -> Result<StoreStatus, SnapshotError> {
        let role = self.handle.lock_role().clone();
        match role {
            HandleRole::Owner(owner) => Ok(StoreStatus::read(&owner.store)),
            HandleRole::Reader(_) => {
                let StoreResponse::Status(status) = self.handle.ask_owner(&StoreRequest::Status)?
                else {
                    return Err(unexpected_response());
                };
                Ok(status)
            }
        }
    }

    /// How many requests of other processes this process has served as the owner.
    #[must_use]
    pub fn served_request_count(&self) -> u64 {
        match &*self.handle.lock_role() {
            HandleRole::Owner(owner) => owner.served_request_count(),
            HandleRole::Reader(_) => 0,
        }
    }

    /// How many files the last capture of the whole worktree had; zero if this process does not know.
    #[must_use]
    pub fn known_file_count(&self) -> usize {
        let role = self.handle.lock_role().clone();
        match role {
            HandleRole::Owner(owner) => StoreStatus::read(&owner.store).files,
            HandleRole::Reader(_) => 0,
        }
    }

    /// How many bytes the disk of the store holds when it is empty.
    ///
    /// # Errors
    ///
    /// The system does not say.
    pub fn disk_capacity(&self) -> io::Result<u64> {
        disk_capacity(&self.handle.location().folder)
    }

    /// How many objects this process has stored so far, to show that something happens.
    #[must_use]
    pub fn stored_object_count(&self) -> u64 {
        match &*self.handle.lock_role() {
            HandleRole::Owner(owner) => owner.store.repository.stored_object_count(),
            HandleRole::Reader(_) => 0,
        }
    }

    /// Makes room without expiring anything: drops what no group pins, then repacks.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing that is pinned is lost.
    pub fn reclaim_unpinned(
        &self,
        need: &EvictionRequest,
    ) -> Result<EvictionReport, SnapshotError> {
        self.request_eviction(&StoreRequest::Relieve(need.clone()), need.now)
    }

    /// How many bytes each of `steps` frees, taken in order. Nothing is changed.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn measure_expiry(
        &self,
        steps: &[ExpiryStep],
        now: EpochMillis,
    ) -> Result<Vec<u64>, SnapshotError> {
        let request = StoreRequest::Measure { steps: steps.to_vec() };
        let StoreResponse::Measured { freed } = self.handle.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(freed)
    }

    /// Lets captures expire and frees what they took. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; do it again.
    pub fn expire_captures(
        &self,
        steps: &[ExpiryStep],
        need: &EvictionRequest,
    ) -> Result<EvictionReport, SnapshotError> {
        let request = StoreRequest::Expire { steps: steps.to_vec(), need: need.clone() };
        self.request_eviction(&request, need.now)
    }

    fn request_eviction(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<EvictionReport, SnapshotError> {
        let StoreResponse::Relieved(report) = self.handle.dispatch(request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*report)
    }

    /// As [`crate::PathForgetter::begin`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn begin_forget(&self, patterns: &[String], now: EpochMillis) -> Result<(), SnapshotError> {
        let request = StoreRequest::BeginForget { patterns: patterns.to_vec() };
        let StoreResponse::Hello = self.handle.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(())
    }

    /// As [`crate::PathForgetter::finish`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn finish_forget(&self, now: EpochMillis) -> Result<usize, SnapshotError> {
        let StoreResponse::Forgotten { captures } =
            self.handle.dispatch(&StoreRequest::FinishForget { now }, now)?
        else {
            return Err(unexpected_response());
        };
        Ok(captures)
    }
}
