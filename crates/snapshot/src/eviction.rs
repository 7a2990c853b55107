//! Eviction: what is given up, step by step, when the budget or the disk has no room (R13).

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture::CaptureError;
use crate::capture_expiry::{ExpireError, ExpiredCaptures, ExpiryStep};
use crate::gc::{GcOptions, MIN_GROUP_AGE_MS};
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;

/// How often more captures expire because fewer bytes became free than thought.
const MAX_EVICTION_ROUNDS: usize = 4;

/// What may be done to make room, and for how much.
#[derive(Clone, Debug)]
pub struct EvictionOptions<'r> {
    /// Bytes that shall fit; what `OverBudget` said.
    pub needed: u64,
    /// Live groups: their captures stay.
    pub live: &'r BTreeSet<PinGroup>,
    /// The current time.
    pub now: EpochMillis,
    /// What may expire, in this order; never the open turn, its guards, or a session's newest turn.
    pub expiry: &'r [ExpiryStep],
    /// About how many bytes each repack may copy.
    pub effort: u64,
}

/// What was done to make room.
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

/// Makes room in a store: drops what no group pins, then lets captures expire.
pub struct CaptureEviction<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl CaptureEviction<'_> {
    /// Makes room: drops what no group pins, repacks, then expires captures, until it fits (R13).
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or a step names a capture its group does not have.
    pub fn evict_until_fits(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let mut report = self.reclaim_unpinned(room)?;
        let mut rest = room.expiry;
        for _ in 0..MAX_EVICTION_ROUNDS {
            if report.fits || rest.is_empty() {
                break;
            }
            let enough = self.count_steps_needed(rest, room.needed)?;
            let (now, later) = rest.split_at(enough.unwrap_or(rest.len()));
            rest = later;
            let more = self.expire_captures(&EvictionOptions { expiry: now, ..room.clone() })?;
            report.expired.extend(more.expired);
            (report.bytes_after, report.fits) = (more.bytes_after, more.fits);
        }
        Ok(report)
    }

    /// Makes room without expiring anything: drops what no group pins, then repacks.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn reclaim_unpinned(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.store.budget().usage_and_limit()?;
        let mut report = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        if self.update_fit(room.needed, &mut report)? {
            return Ok(report);
        }
        report.dropped_groups = self.collect_garbage_for(room)?;
        for _ in 0..MAX_EVICTION_ROUNDS {
            if self.update_fit(room.needed, &mut report)?
                || self.store.packs().repack(room.effort)?.is_done
            {
                break;
            }
        }
        self.update_fit(room.needed, &mut report)?;
        Ok(report)
    }

    /// How many of `steps`, taken in order, are about enough for `needed` more bytes; `None` if all
    /// of them are not.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn count_steps_needed(
        &self,
        steps: &[ExpiryStep],
        needed: u64,
    ) -> Result<Option<usize>, ExpireError> {
        let (used, allowed) = self.store.budget().usage_and_limit()?;
        let excess = used.saturating_add(needed).saturating_sub(allowed);
        self.store.expiry().count_steps_freeing(steps, excess)
    }

    /// Expires the captures of all steps and drops what no group pins then. Repeating it changes
    /// nothing; a step that says less than was done before is done.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; do it again.
    pub fn expire_captures(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.store.budget().usage_and_limit()?;
        let mut report = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        self.expire_chains(room.expiry, &mut report)?;
        report.dropped_groups = self.collect_garbage_for(room)?;
        self.update_fit(room.needed, &mut report)?;
        Ok(report)
    }

    /// Looks whether so many bytes fit now.
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
        // The last step of a group says the most.
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

    fn collect_garbage_for(&self, room: &EvictionOptions<'_>) -> Result<Vec<String>, ExpireError> {
        let EvictionOptions { live, now, .. } = *room;
        let wanted =
            GcOptions { live, now, keep: MIN_GROUP_AGE_MS, effort: u64::MAX, dry_run: false };
        Ok(self.store.collector().collect(&wanted)?.dropped_groups)
    }

    /// Does `capture`, and once more after room was made if it did not fit.
    ///
    /// # Errors
    ///
    /// What `capture` says; [`CaptureError::OverBudget`] if no room could be made. Captures that
    /// expired are in `report` in any case.
    pub fn capture_with_eviction<T>(
        &self,
        room: &EvictionOptions<'_>,
        report: &mut Option<EvictionReport>,
        capture: impl Fn(&SnapshotStore) -> Result<T, CaptureError>,
    ) -> Result<T, CaptureError> {
        match capture(self.store) {
            Err(CaptureError::OverBudget(over)) => {
                let made =
                    self.evict_until_fits(&EvictionOptions { needed: over.needed, ..room.clone() });
                let made = report.insert(made.map_err(io::Error::other)?);
                if made.fits { capture(self.store) } else { Err(CaptureError::OverBudget(over)) }
            }
            done => done,
        }
    }
}
