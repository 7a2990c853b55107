//! Eviction: deletes old undo data, step by step, when the budget or the disk is full (R13).

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture_expiry::{ExpireError, ExpiredCaptures, ExpiryStep};
use crate::gc::{GcOptions, MIN_GROUP_AGE_MS};
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;

/// How often packs are merged at most.
const MAX_REPACK_ROUNDS: usize = 4;

/// How much space is needed, and what must stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionRequest {
    /// Bytes that must fit, from [`crate::OverBudget`].
    pub bytes: u64,
    /// Live groups: their captures stay.
    pub live: BTreeSet<PinGroup>,
    /// About how many bytes each repack may copy.
    pub effort: u64,
    /// The current time.
    pub now: EpochMillis,
}

/// What was deleted to free space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionReport {
    /// Groups that were not live, by name.
    pub dropped_groups: Vec<String>,
    /// Captures that expired; the caller, who knows their turns, records them.
    pub expired: Vec<ExpiredCaptures>,
    /// Bytes of packs before.
    pub bytes_before: u64,
    /// Bytes of packs after.
    pub bytes_after: u64,
    /// True if what was needed fits now.
    pub fits: bool,
}

/// Frees space in a store: drops what no group pins, then expires captures.
pub struct CaptureEviction<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl CaptureEviction<'_> {
    /// Frees space without expiring anything: drops what no group pins, then repacks.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn reclaim_unpinned(
        &self,
        request: &EvictionRequest,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.store.budget().usage_and_limit()?;
        let mut report = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        if self.update_fit(request.bytes, &mut report)? {
            return Ok(report);
        }
        report.dropped_groups = self.collect_garbage_for(request)?;
        for _ in 0..MAX_REPACK_ROUNDS {
            if self.update_fit(request.bytes, &mut report)?
                || self.store.packs().repack(request.effort)?.is_done
            {
                break;
            }
        }
        self.update_fit(request.bytes, &mut report)?;
        Ok(report)
    }

    /// Expires the captures of all steps and drops what no group pins then. Repeating it changes
    /// nothing; a step that an earlier call included is already done.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; do it again.
    pub fn expire_captures(
        &self,
        steps: &[ExpiryStep],
        request: &EvictionRequest,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.store.budget().usage_and_limit()?;
        let mut report = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        self.expire_chains(steps, &mut report)?;
        report.dropped_groups = self.collect_garbage_for(request)?;
        self.update_fit(request.bytes, &mut report)?;
        Ok(report)
    }

    /// Checks whether `needed` bytes fit now.
    fn update_fit(&self, needed: u64, report: &mut EvictionReport) -> io::Result<bool> {
        let (used, allowed) = self.store.budget().usage_and_limit()?;
        report.bytes_after = used;
        report.fits = used.saturating_add(needed) <= allowed;
        Ok(report.fits)
    }

    /// Expires the captures of all steps; each chain is rewritten once.
    fn expire_chains(
        &self,
        steps: &[ExpiryStep],
        report: &mut EvictionReport,
    ) -> Result<(), ExpireError> {
        let mut seen = BTreeSet::new();
        // The last step of a group includes the others.
        let last = steps.iter().rev().filter(|step| seen.insert(step.group.clone()));
        for step in last.collect::<Vec<_>>().into_iter().rev() {
            let expired = match &step.keep_from {
                Some(keep_from) => self.store.expiry().expire_before(&step.group, keep_from),
                None => self.store.expiry().expire_group(&step.group),
            };
            let captures = match expired {
                // More has expired before.
                Err(ExpireError::NotInGroup { .. }) => continue,
                expired => expired?,
            };
            if !captures.is_empty() {
                let group = step.group.name().to_owned();
                report.expired.push(ExpiredCaptures { group, captures });
            }
        }
        Ok(())
    }

    fn collect_garbage_for(&self, request: &EvictionRequest) -> Result<Vec<String>, ExpireError> {
        let EvictionRequest { live, now, .. } = request;
        let wanted =
            GcOptions { live, now: *now, keep: MIN_GROUP_AGE_MS, effort: u64::MAX, dry_run: false };
        Ok(self.store.collector().collect(&wanted)?.dropped_groups)
    }
}
