//! Repacking: small packs are merged and versions become deltas while captures go on (R13, R41).
//!
//! A new pack is built while captures go on. Only then, for as long as it takes to rename a few files,
//! captures wait; old packs go afterwards. Killed anywhere, the store holds everything it held.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture::CaptureError;
use crate::object_store::{ObjectError, PackFile, PackOwner, PackRebuild};
use crate::reachability::reach_all_refs;
use crate::snapshot_store::SnapshotStore;

const STATE_FILE: &str = "upkeep.json";
/// Packs with more bytes are not merged with others; they would be copied again and again.
const MAX_MERGED_PACK_BYTES: u64 = 256 << 20;
/// So many packs are merged before the next capture.
const MAX_PACKS: usize = 128;
/// Bytes copied before a capture at most.
const MAX_INLINE_MERGE_BYTES: u64 = 32 << 20;

const HOUR: i64 = 3_600_000;

/// The state of maintenance. A hint: if it is lost, some work is repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MaintenanceState {
    /// When the store was last collected.
    pub(crate) last_gc: Option<EpochMillis>,
    /// Packs in which versions are deltas already.
    pub(crate) lined_up: BTreeSet<String>,
    /// Captures of deleted sessions were dropped, and their objects may still be there.
    pub(crate) erasing: bool,
}

impl MaintenanceState {
    /// Reads what was remembered; a missing or torn file is nothing remembered.
    pub(crate) fn load(folder: &Path) -> Self {
        let bytes = fs_err::read(folder.join(STATE_FILE)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let temp = folder.join("upkeep.tmp");
        fs_err::File::create(&temp)?.write_all(&serde_json::to_vec(self)?)?;
        fs_err::rename(&temp, folder.join(STATE_FILE))
    }
}

/// Who asks whether it is time to collect (R41).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceInterval {
    /// An idle store owner: hourly.
    Hourly,
    /// A command that is about to end: daily.
    Daily,
}

impl MaintenanceInterval {
    fn millis(self) -> i64 {
        match self {
            Self::Hourly => HOUR,
            Self::Daily => 24 * HOUR,
        }
    }

    /// True if a collection is due at `now`; one from the future does not count.
    #[must_use]
    pub fn is_due(self, last: Option<EpochMillis>, now: EpochMillis) -> bool {
        last.is_none_or(|last| now.since(last) >= self.millis() || last > now)
    }
}

/// What a merge of packs did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepackReport {
    /// Packs that were replaced.
    pub packs: usize,
    /// Bytes of packs before.
    pub bytes_before: u64,
    /// Bytes of packs after.
    pub bytes_after: u64,
    /// False if there is more to do of the same kind.
    pub is_done: bool,
}

/// Merging of packs, and the end of borrowing the user's packs.
pub struct PackMaintenance<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl PackMaintenance<'_> {
    /// True if captures of deleted sessions were dropped and their objects may still be there.
    pub(crate) fn is_erasing(&self) -> bool {
        self.store.maintenance.lock().unwrap_or_else(PoisonError::into_inner).erasing
    }

    /// Notes durably that captures of deleted sessions are dropped, so that a collection that is cut off is repeated.
    pub(crate) fn begin_erasing(&self) -> io::Result<()> {
        self.set_erasing(true)
    }

    /// Notes that no object of a deleted session is left.
    pub(crate) fn end_erasing(&self) -> io::Result<()> {
        self.set_erasing(false)
    }

    fn set_erasing(&self, erasing: bool) -> io::Result<()> {
        let mut state = self.store.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        state.erasing = erasing;
        state.save(&self.store.directory)?;
        fs_err::File::open(self.store.directory.join(STATE_FILE))?.sync_all()
    }

    /// Merges small packs and stores versions of a file as deltas, a bounded part per call.
    ///
    /// At most about `effort` bytes are copied, and four times as many unpacked; call it again until
    /// it is done. Captures go on meanwhile, and wait only while files are renamed.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; nothing is lost then.
    pub fn repack(&self, effort: u64) -> Result<RepackReport, ObjectError> {
        let mut state = self.store.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let packs = self.store.repository.list_packs()?;
        let chosen = choose_packs(&packs, &state.lined_up, effort);
        let mut merged = RepackReport { is_done: true, ..RepackReport::default() };
        merged.bytes_before = packs.iter().map(|pack| pack.bytes).sum();
        merged.bytes_after = merged.bytes_before;
        if !chosen.is_empty() {
            let reach = reach_all_refs(&self.store.repository)?;
            let rebuild = PackRebuild::new(&self.store.repository, &chosen, &|_| true)?;
            let done =
                rebuild.finish(&|oid| reach.delta_sort_key(oid), effort.saturating_mul(4))?;
            let (name, was_enough) = done;
            self.replace_packs(&chosen, name.as_deref())?;
            merged.packs = chosen.len();
            let before: u64 = chosen.iter().map(|pack| pack.bytes).sum();
            let packs = self.store.repository.list_packs()?;
            // Unfinished work that gains nothing is not taken up again.
            let made = packs.iter().find(|pack| Some(&pack.stem) == name.as_ref());
            let is_done = |pack: &&PackFile| was_enough || pack.bytes > before - before / 50;
            state.lined_up.extend(made.filter(is_done).map(|pack| pack.stem.clone()));
        }
        let packs = self.store.repository.list_packs()?;
        state.lined_up.retain(|stem| packs.iter().any(|pack| pack.stem == *stem));
        state.save(&self.store.directory)?;
        merged.bytes_after = packs.iter().map(|pack| pack.bytes).sum();
        merged.is_done = choose_packs(&packs, &state.lined_up, effort).is_empty();
        Ok(merged)
    }

    /// Merges packs when there are many; a process can see a fixed number of them only.
    pub(crate) fn merge_packs_if_many(&self) -> Result<(), CaptureError> {
        // The holder of these locks does the same, or is a capture that must not be waited for.
        let (Ok(state), Ok(running)) =
            (self.store.maintenance.try_lock(), self.store.baseline_lock.try_lock())
        else {
            return Ok(());
        };
        drop(running);
        if self.store.repository.list_packs()?.len() <= MAX_PACKS {
            return Ok(());
        }
        match self.merge_smallest_packs(MAX_INLINE_MERGE_BYTES, state) {
            // The capture itself reports a full disk: it may need less.
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Copies the smallest packs into one.
    fn merge_smallest_packs(
        &self,
        effort: u64,
        state: MutexGuard<'_, MaintenanceState>,
    ) -> io::Result<()> {
        let packs = self.store.repository.list_packs()?;
        let mut small = mergeable_packs(&packs);
        let mut sum = 0;
        small.retain(|pack| {
            sum += pack.bytes;
            sum <= effort
        });
        if small.len() > 1 {
            let rebuild = PackRebuild::new(&self.store.repository, &small, &|_| true)?;
            let (name, _) = rebuild.finish(&|_| None, 0)?;
            self.replace_packs(&small, name.as_deref())?;
        }
        drop(state);
        Ok(())
    }

    /// Takes `old` packs away, whose objects are in the pack `new` or anywhere else.
    pub(crate) fn replace_packs(&self, old: &[&PackFile], new: Option<&str>) -> io::Result<()> {
        fail_point!("snapshot::repacked", |_| Err(io::Error::other("failpoint")));
        let old: Vec<&PackFile> =
            old.iter().copied().filter(|pack| Some(pack.stem.as_str()) != new).collect();
        // Waits for a running capture of the whole worktree before the exclusive lock blocks others.
        let running = self.store.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.store.objects_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.store.repository.hide_packs(&old)?;
        drop((taken, running));
        self.store.repository.remove_packs(&old)
    }
}

/// Our own packs that may be merged, smallest first.
fn mergeable_packs(packs: &[PackFile]) -> Vec<&PackFile> {
    let may =
        |pack: &&PackFile| pack.owner == PackOwner::Store && pack.bytes <= MAX_MERGED_PACK_BYTES;
    let mut found: Vec<&PackFile> = packs.iter().filter(may).collect();
    found.sort_by_key(|pack| pack.bytes);
    found
}

/// Chooses packs to merge: new ones, and those that are not much larger than all before together.
///
/// So each object is copied a few times in all, however many captures follow.
fn choose_packs<'p>(
    packs: &'p [PackFile],
    lined_up: &BTreeSet<String>,
    effort: u64,
) -> Vec<&'p PackFile> {
    let (old, new): (Vec<_>, Vec<_>) =
        mergeable_packs(packs).into_iter().partition(|pack| lined_up.contains(&pack.stem));
    let mut sum = 0;
    let mut chosen = Vec::new();
    for pack in new {
        if chosen.is_empty() || sum + pack.bytes <= effort {
            sum += pack.bytes;
            chosen.push(pack);
        }
    }
    for pack in old {
        if pack.bytes <= sum.saturating_mul(2) && sum + pack.bytes <= effort {
            sum += pack.bytes;
            chosen.push(pack);
        }
    }
    chosen
}
