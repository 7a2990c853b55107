//! The budget: how much a store may take, asked before a pack gets its name (R13).
//!
//! Knows bytes and groups, not sessions: what may expire, and in which order, the caller says.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use crate::capture::CaptureError;
use crate::object_store::pack_bytes;
use crate::snapshot_store::SnapshotStore;

const GIB: u64 = 1 << 30;
/// After so many captures what other programs did to the packs is looked at again.
const RECHECK_INTERVAL: u32 = 64;

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

/// Which limit is exceeded.
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
    /// The limit that is exceeded.
    pub which: BudgetLimit,
    /// Bytes that are used.
    pub used: u64,
    /// Of these, bytes of borrowed packs, which are released at the next idle time.
    #[serde(rename = "lent")]
    pub borrowed: u64,
    /// Bytes that may be used.
    pub limit: u64,
    /// Bytes of the capture.
    pub needed: u64,
}

/// What is known of the bytes that are used.
#[derive(Debug, Default)]
pub(crate) struct BudgetUsage {
    budget: StorageBudget,
    /// Bytes of this store, of the borrowed packs in it, and of the other stores.
    known: Option<(u64, u64, u64)>,
    checks_since: u32,
}

impl BudgetUsage {
    pub(crate) fn new(budget: StorageBudget) -> Self {
        Self { budget, ..Self::default() }
    }
}

/// How much a store uses and how much it may use (R13).
pub(crate) struct StoreBudget<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl StoreBudget<'_> {
    /// Asks whether a pack of `needed` bytes may get its name; a guard is asked about the disk only.
    pub(crate) fn check(&self, needed: u64, is_guard: bool) -> Result<(), CaptureError> {
        let mut budget_usage =
            self.store.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, floor) = disk_free_and_floor(self.store.git_dir(), budget_usage.budget.floor)?;
        if free < floor {
            return Err(CaptureError::BelowFloor { free, floor, needed });
        }
        let (own, borrowed, others) = self.measure(&mut budget_usage)?;
        let StorageBudget { store, total, .. } = budget_usage.budget;
        let total = if budget_usage.budget.stores.is_some() { total } else { u64::MAX };
        let over = |which, used: u64, limit| {
            let over = OverBudget { which, used, borrowed, limit, needed };
            (used.saturating_add(needed) > limit && !is_guard).then_some(over)
        };
        let over_total = over(BudgetLimit::Total, own.saturating_add(others), total);
        if let Some(over) = over(BudgetLimit::Store, own, store).or(over_total) {
            // Room may be made meanwhile: the next check measures again.
            budget_usage.known = None;
            return Err(CaptureError::OverBudget(over));
        }
        budget_usage.known = Some((own + needed, borrowed, others));
        Ok(())
    }

    fn measure(&self, budget_usage: &mut BudgetUsage) -> io::Result<(u64, u64, u64)> {
        budget_usage.checks_since = (budget_usage.checks_since + 1) % RECHECK_INTERVAL;
        if let Some(known) = budget_usage.known.filter(|_| budget_usage.checks_since != 0) {
            return Ok(known);
        }
        let usage = self.store.inspection().usage()?;
        let others = match &budget_usage.budget.stores {
            Some(stores) => other_stores_bytes(stores, &self.store.directory)?,
            None => 0,
        };
        let known = (usage.bytes + usage.loose, usage.borrowed, others);
        budget_usage.known = Some(known);
        Ok(known)
    }

    /// Measures again; returns the bytes that this store uses and may use.
    pub(crate) fn usage_and_limit(&self) -> io::Result<(u64, u64)> {
        let mut budget_usage =
            self.store.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        budget_usage.known = None;
        let (own, _, others) = self.measure(&mut budget_usage)?;
        let total = match budget_usage.budget.stores {
            Some(_) => budget_usage.budget.total.saturating_sub(others),
            None => u64::MAX,
        };
        Ok((own, budget_usage.budget.store.min(total)))
    }

    /// Bytes that may be written before the floor is reached.
    pub(crate) fn bytes_above_floor(&self) -> io::Result<u64> {
        let budget_usage = self.store.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, floor) = disk_free_and_floor(self.store.git_dir(), budget_usage.budget.floor)?;
        Ok(free.saturating_sub(floor))
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

/// Bytes that may still be written to the disk of a folder.
///
/// # Errors
///
/// The system does not say.
pub fn free_disk_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Bytes that the disk of a folder holds when it is empty.
pub(crate) fn disk_capacity(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_blocks.saturating_mul(disk.f_frsize))
}

/// Bytes of the packs of every store in a folder but one.
fn other_stores_bytes(stores: &Path, own: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs_err::read_dir(stores)? {
        let folder = entry?.path();
        if own.file_name() == folder.file_name() && own == fs_err::canonicalize(&folder)? {
            continue;
        }
        match pack_bytes(&folder.join("git")) {
            Err(error) if is_not_a_store(&error) => {}
            found => sum += found?,
        }
    }
    Ok(sum)
}

fn is_not_a_store(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
