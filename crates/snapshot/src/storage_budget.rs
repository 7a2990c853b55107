//! The budget: how much a store may take, asked before a pack gets its name (R13).
//!
//! Knows bytes and groups, not sessions: what may expire, and in which order, the caller says.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture::CaptureError;
use crate::capture_expiry::{ExpireError, ExpiredCaptures, ExpiryStep};
use crate::gc::{GcOptions, MIN_GROUP_AGE_MS};
use crate::object_store::ObjectRepository;
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;

const GIB: u64 = 1 << 30;
/// After so many captures what other programs did to the packs is looked at again.
const RECHECK_INTERVAL: u32 = 64;
/// How often more captures expire because fewer bytes became free than thought.
const MAX_EVICTION_ROUNDS: usize = 4;

/// How many bytes may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageBudget {
    /// By the packs of this store.
    pub store: u64,
    /// By the packs of all stores in `stores`.
    pub total: u64,
    /// The folder of all stores; without it the total is not looked at.
    pub stores: Option<PathBuf>,
    /// What stays free on the disk, whatever the others say.
    pub floor: FreeSpaceFloor,
}

/// What stays free on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSpaceFloor {
    /// 1 GiB or 2 % of the disk, whichever is less.
    Default,
    /// So many bytes.
    Bytes(u64),
}

impl Default for StorageBudget {
    fn default() -> Self {
        Self { store: 2 * GIB, total: 10 * GIB, stores: None, floor: FreeSpaceFloor::Default }
    }
}

/// Which limit stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    /// That of this store.
    Store,
    /// That of all stores together.
    Total,
}

/// A capture that does not fit. Nothing of it is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the capture needs {needed} bytes; {used} of {limit} are used")]
pub struct OverBudget {
    /// The limit in the way.
    pub which: BudgetLimit,
    /// Bytes that are used.
    pub used: u64,
    /// Of these, bytes of packs on loan, which go at the next idle time.
    pub lent: u64,
    /// Bytes that may be used.
    pub limit: u64,
    /// Bytes of the capture.
    pub needed: u64,
}

/// What is known of the bytes that are used.
#[derive(Debug, Default)]
pub(crate) struct BudgetUsage {
    budget: StorageBudget,
    /// Bytes of this store, of packs on loan in it, and of the other stores.
    known: Option<(u64, u64, u64)>,
    checks_since: u32,
}

/// What may be done to make room, and for how much.
#[derive(Clone, Debug)]
pub struct EvictionOptions<'r> {
    /// Bytes that shall fit; what [`OverBudget`] said.
    pub needed: u64,
    /// Groups that somebody needs.
    pub live: &'r BTreeSet<PinGroup>,
    /// The present.
    pub now: EpochMillis,
    /// What may expire, in this order; never the open turn, its guards, or a session's newest turn.
    pub expiry: &'r [ExpiryStep],
    /// About how many bytes each repack may copy.
    pub effort: u64,
}

/// What was done to make room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionReport {
    /// Groups nobody needed, by name.
    pub dropped_groups: Vec<String>,
    /// Captures that expired, to be written down by whoever knows their turns.
    pub expired: Vec<ExpiredCaptures>,
    /// Bytes of packs before.
    pub bytes_before: u64,
    /// Bytes of packs after.
    pub bytes_after: u64,
    /// True if what was needed fits now.
    pub fits: bool,
}

impl SnapshotStore {
    /// Sets the budget. Without this the usual one for a single store is in force.
    ///
    /// # Errors
    ///
    /// The free space of the disk cannot be told.
    pub fn with_budget(self, budget: StorageBudget) -> io::Result<Self> {
        let (_, floor) = disk_free_and_floor(self.git_dir(), budget.floor)?;
        self.repository.set_free_space_floor(floor);
        let mut account = self.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        *account = BudgetUsage { budget, ..BudgetUsage::default() };
        drop(account);
        Ok(self)
    }

    /// Asks whether a pack of `needed` bytes may get its name; a guard is asked about the disk only.
    pub(crate) fn check_budget(&self, needed: u64, is_guard: bool) -> Result<(), CaptureError> {
        let mut account = self.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, floor) = disk_free_and_floor(self.git_dir(), account.budget.floor)?;
        if free < floor {
            return Err(CaptureError::BelowFloor { free, floor, needed });
        }
        let (own, lent, others) = self.measure_usage(&mut account)?;
        let StorageBudget { store, total, .. } = account.budget;
        let total = if account.budget.stores.is_some() { total } else { u64::MAX };
        let over = |which, used: u64, limit| {
            let over = OverBudget { which, used, lent, limit, needed };
            (used.saturating_add(needed) > limit && !is_guard).then_some(over)
        };
        let over_total = over(BudgetLimit::Total, own.saturating_add(others), total);
        if let Some(over) = over(BudgetLimit::Store, own, store).or(over_total) {
            // Somebody may make room: the next look is a fresh one.
            account.known = None;
            return Err(CaptureError::OverBudget(over));
        }
        account.known = Some((own + needed, lent, others));
        Ok(())
    }

    fn measure_usage(&self, account: &mut BudgetUsage) -> io::Result<(u64, u64, u64)> {
        account.checks_since = (account.checks_since + 1) % RECHECK_INTERVAL;
        if let Some(known) = account.known.filter(|_| account.checks_since != 0) {
            return Ok(known);
        }
        let usage = self.usage()?;
        let others = match &account.budget.stores {
            Some(stores) => other_stores_bytes(stores, &self.directory)?,
            None => 0,
        };
        let known = (usage.bytes + usage.loose, usage.lent, others);
        account.known = Some(known);
        Ok(known)
    }

    /// Looks anew at what is used; returns the bytes of this store and what it may have.
    fn usage_and_limit(&self) -> io::Result<(u64, u64)> {
        let mut account = self.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        account.known = None;
        let (own, _, others) = self.measure_usage(&mut account)?;
        let total = match account.budget.stores {
            Some(_) => account.budget.total.saturating_sub(others),
            None => u64::MAX,
        };
        Ok((own, account.budget.store.min(total)))
    }

    /// Bytes that may be written before the floor is reached.
    pub(crate) fn bytes_above_floor(&self) -> io::Result<u64> {
        let account = self.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, floor) = disk_free_and_floor(self.git_dir(), account.budget.floor)?;
        Ok(free.saturating_sub(floor))
    }

    /// Makes room: drops what nobody pins, repacks, then lets captures expire, until it fits (R13).
    ///
    /// # Errors
    ///
    /// The store cannot be read or written, or a step names a capture its group does not have.
    pub fn evict_until_fits(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let mut relief = self.reclaim_unpinned(room)?;
        let mut rest = room.expiry;
        for _ in 0..MAX_EVICTION_ROUNDS {
            if relief.fits || rest.is_empty() {
                break;
            }
            let enough = self.count_steps_needed(rest, room.needed)?;
            let (now, later) = rest.split_at(enough.unwrap_or(rest.len()));
            rest = later;
            let more = self.expire_captures(&EvictionOptions { expiry: now, ..room.clone() })?;
            relief.expired.extend(more.expired);
            (relief.bytes_after, relief.fits) = (more.bytes_after, more.fits);
        }
        Ok(relief)
    }

    /// Makes room without letting anything expire: drops what nobody pins, then repacks.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn reclaim_unpinned(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.usage_and_limit()?;
        let mut relief = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        if self.update_fit(room.needed, &mut relief)? {
            return Ok(relief);
        }
        relief.dropped_groups = self.collect_garbage_for(room)?;
        for _ in 0..MAX_EVICTION_ROUNDS {
            if self.update_fit(room.needed, &mut relief)? || self.repack(room.effort)?.is_done {
                break;
            }
        }
        self.update_fit(room.needed, &mut relief)?;
        Ok(relief)
    }

    /// How many of `steps`, taken in order, are about enough for `needed` more bytes; nothing if all
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
        let (used, allowed) = self.usage_and_limit()?;
        let excess = used.saturating_add(needed).saturating_sub(allowed);
        self.count_steps_freeing(steps, excess)
    }

    /// Lets the captures of all steps expire and drops what nobody pins then. Repeating it changes
    /// nothing; a step that says less than was done before is done.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; do it again.
    pub fn expire_captures(
        &self,
        room: &EvictionOptions<'_>,
    ) -> Result<EvictionReport, ExpireError> {
        let (before, _) = self.usage_and_limit()?;
        let mut relief = EvictionReport { bytes_before: before, ..EvictionReport::default() };
        self.expire_chains(room.expiry, &mut relief)?;
        relief.dropped_groups = self.collect_garbage_for(room)?;
        self.update_fit(room.needed, &mut relief)?;
        Ok(relief)
    }

    /// Looks whether so many bytes fit now.
    fn update_fit(&self, needed: u64, relief: &mut EvictionReport) -> io::Result<bool> {
        let (used, allowed) = self.usage_and_limit()?;
        relief.bytes_after = used;
        relief.fits = used.saturating_add(needed) <= allowed;
        Ok(relief.fits)
    }

    /// Lets the captures of all steps expire, each chain written anew once.
    fn expire_chains(
        &self,
        steps: &[ExpiryStep],
        relief: &mut EvictionReport,
    ) -> Result<(), ExpireError> {
        let mut seen = BTreeSet::new();
        // The last step of a group says the most.
        let last = steps.iter().rev().filter(|step| seen.insert(step.group.clone()));
        for step in last.collect::<Vec<_>>().into_iter().rev() {
            let expired = match &step.keep_from {
                Some(keep_from) => self.expire_before(&step.group, keep_from),
                None => self.expire_group(&step.group),
            };
            let captures = match expired {
                // More has expired before.
                Err(ExpireError::NotInGroup { .. }) => continue,
                expired => expired?,
            };
            if !captures.is_empty() {
                let group = step.group.name().to_owned();
                relief.expired.push(ExpiredCaptures { group, captures });
            }
        }
        Ok(())
    }

    fn collect_garbage_for(&self, room: &EvictionOptions<'_>) -> Result<Vec<String>, ExpireError> {
        let EvictionOptions { live, now, .. } = *room;
        let wanted =
            GcOptions { live, now, keep: MIN_GROUP_AGE_MS, effort: u64::MAX, dry_run: false };
        Ok(self.collect_garbage(&wanted)?.dropped_groups)
    }

    /// Does `capture`, and once more after room was made if it did not fit.
    ///
    /// # Errors
    ///
    /// What `capture` says; [`CaptureError::OverBudget`] if no room could be made. Captures that
    /// expired are told in `relief` in any case.
    pub fn capture_with_eviction<T>(
        &self,
        room: &EvictionOptions<'_>,
        relief: &mut Option<EvictionReport>,
        capture: impl Fn(&Self) -> Result<T, CaptureError>,
    ) -> Result<T, CaptureError> {
        match capture(self) {
            Err(CaptureError::OverBudget(over)) => {
                let made =
                    self.evict_until_fits(&EvictionOptions { needed: over.needed, ..room.clone() });
                let made = relief.insert(made.map_err(io::Error::other)?);
                if made.fits { capture(self) } else { Err(CaptureError::OverBudget(over)) }
            }
            done => done,
        }
    }
}

/// Bytes that are free on the disk of a folder, and how many must stay so.
pub(crate) fn disk_free_and_floor(folder: &Path, floor: FreeSpaceFloor) -> io::Result<(u64, u64)> {
    let disk = rustix::fs::statvfs(folder)?;
    let size = disk.f_blocks.saturating_mul(disk.f_frsize);
    let floor = match floor {
        FreeSpaceFloor::Default => GIB.min(size / 50),
        FreeSpaceFloor::Bytes(bytes) => bytes,
    };
    Ok((disk.f_bavail.saturating_mul(disk.f_frsize), floor))
}

/// Bytes of the packs of every store in a folder but one.
fn other_stores_bytes(stores: &Path, own: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs_err::read_dir(stores)? {
        let folder = entry?.path();
        if own.file_name() == folder.file_name() && own == fs_err::canonicalize(&folder)? {
            continue;
        }
        match ObjectRepository::pack_bytes(&folder.join("git")) {
            Err(error) if is_not_a_store(&error) => {}
            found => sum += found?,
        }
    }
    Ok(sum)
}

fn is_not_a_store(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
