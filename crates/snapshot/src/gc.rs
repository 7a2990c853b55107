//! Garbage collection: deletes expired groups, and objects that no group pins.
//!
//! References are deleted first and durably, then a new pack becomes durable, and only then old packs are deleted: killed
//! anywhere, the store holds everything that is pinned. Captures go on while the new pack is built;
//! what they came to need meanwhile is found before anything goes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::PoisonError;

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::object_store::{ObjectError, Oid, PackFile, PackOwner, PackRebuild};
use crate::pin_group::PinGroup;
use crate::reachability::ReachableObjects;
use crate::snapshot_store::SnapshotStore;

/// No group younger than this is dropped: its owner may not have written it down yet (R9).
pub(crate) const MIN_GROUP_AGE_MS: i64 = 3_600_000;

/// What is to be collected.
#[derive(Clone, Debug)]
pub struct GcOptions<'c> {
    /// Live groups: they pin their captures whatever their age.
    pub live: &'c BTreeSet<PinGroup>,
    /// The current time.
    pub now: EpochMillis,
    /// How long captures of other groups are kept, in milliseconds; never less than an hour (R41).
    pub keep: i64,
    /// About how many bytes are copied at most; what is left is collected the next time.
    pub effort: u64,
    /// Nothing is changed; the report is that of a run.
    pub dry_run: bool,
}

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcReport {
    /// Groups that are not live any more, by name.
    pub dropped_groups: Vec<String>,
    /// Groups that stay, and why.
    pub kept_groups: Vec<KeptGroup>,
    /// Objects that no group pins.
    pub dropped_objects: usize,
    /// Stored bytes of objects that no group pins.
    pub dropped_bytes: u64,
    /// Objects that stay.
    pub kept_objects: usize,
    /// Bytes of packs before.
    pub bytes_before: u64,
    /// Bytes of packs after; as before if nothing was done.
    pub bytes_after: u64,
    /// False if the effort did not suffice: the next collection finds more.
    pub is_done: bool,
}

/// A group that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptGroup {
    /// Its name.
    pub group: String,
    /// Why it stays.
    pub why: KeepReason,
    /// When its newest capture was made.
    pub newest: EpochMillis,
}

/// Why a group stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// It is live.
    Live,
    /// It is less than an hour old.
    Young,
    /// It is not live, and not old enough to go.
    Recent,
}

/// What is kept and what is deleted.
struct GcPlan {
    reach: ReachableObjects,
    /// References that go, what they named, and their groups.
    expired: BTreeMap<String, (Oid, String)>,
    report: GcReport,
}

/// Drops what no pin group needs.
pub struct GarbageCollector<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl GarbageCollector<'_> {
    /// Drops the groups that are not `live`, unless they are young, and every object that no group pins.
    ///
    /// With `dry_run` nothing is changed, and the report is that of a run.
    ///
    /// # Errors
    ///
    /// An object that is pinned cannot be read: then nothing is dropped.
    pub fn gc(
        &self,
        live: &BTreeSet<PinGroup>,
        now: EpochMillis,
        dry_run: bool,
    ) -> Result<GcReport, ObjectError> {
        self.collect(&GcOptions { live, now, keep: MIN_GROUP_AGE_MS, effort: u64::MAX, dry_run })
    }

    /// Drops what no group pins, a bounded part of it; see [`GcOptions`].
    ///
    /// Captures go on meanwhile, and wait only while files are renamed.
    ///
    /// # Errors
    ///
    /// An object that is pinned cannot be read: then nothing is dropped.
    pub fn collect(&self, wanted: &GcOptions<'_>) -> Result<GcReport, ObjectError> {
        if !wanted.dry_run {
            // Only the needed objects of borrowed packs are copied.
            self.store.packs().release_borrowed_packs()?;
        }
        let mut state = self.store.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let GcPlan { mut reach, expired, mut report } = self.plan(wanted)?;
        let packs = self.store.repository.list_packs()?;
        report.bytes_before = packs.iter().map(|pack| pack.bytes).sum();
        report.bytes_after = report.bytes_before;
        report.kept_objects = reach.len();
        let garbage = find_garbage(&packs, &reach)?;
        report.dropped_objects = garbage.objects.len();
        report.dropped_bytes = garbage.packs.iter().map(|(_, dead, _)| dead).sum();
        if wanted.dry_run {
            return Ok(report);
        }
        self.drop_expired_refs(&expired, &mut reach)?;
        let chosen = garbage.choose_packs(wanted.effort);
        report.is_done = chosen.len() == garbage.packs.len();
        if !chosen.is_empty() {
            if !report.is_done {
                self.keep_closure_of_unpinned(&packs, &chosen, &mut reach)?;
            }
            // Packs of which nothing stays are deleted first: that needs no space, which may be short.
            let (empty, mixed): (Vec<_>, Vec<_>) =
                chosen.into_iter().partition(|pack| garbage.is_entirely_garbage(pack));
            self.rebuild_packs(&empty, &mut reach)?;
            let was_lined_up = mixed.iter().all(|pack| state.lined_up.contains(&pack.stem));
            let name = self.rebuild_packs(&mixed, &mut reach)?;
            state.lined_up.extend(name.filter(|_| was_lined_up));
            let packs = self.store.repository.list_packs()?;
            report.bytes_after = packs.iter().map(|pack| pack.bytes).sum();
        }
        state.last_gc = Some(wanted.now);
        state.save(&self.store.directory)?;
        Ok(report)
    }

    /// Decides which groups stay, and finds what they need.
    fn plan(&self, wanted: &GcOptions<'_>) -> Result<GcPlan, ObjectError> {
        let live: BTreeSet<&str> = wanted.live.iter().map(PinGroup::reference).collect();
        let mut reach = ReachableObjects::default();
        let mut expired = BTreeMap::new();
        let mut report = GcReport { is_done: true, ..GcReport::default() };
        for (name, tip) in self.store.repository.refs().list()? {
            let capture = self.store.repository.read_commit(&tip)?;
            let newest = crate::capture_chain::capture_time(&capture);
            let group = capture.trailer("Turnstone-Group").unwrap_or(&name).to_owned();
            let age = wanted.now.since(newest);
            let why = match age {
                _ if live.contains(name.as_str()) => KeepReason::Live,
                ..MIN_GROUP_AGE_MS => KeepReason::Young,
                _ if age < wanted.keep => KeepReason::Recent,
                _ => {
                    report.dropped_groups.push(group.clone());
                    expired.insert(name, (tip, group));
                    continue;
                }
            };
            reach.add_tip(&self.store.repository, &name, &tip)?;
            report.kept_groups.push(KeptGroup { group, why, newest });
        }
        Ok(GcPlan { reach, expired, report })
    }

    /// Forgets the references of expired groups, except of one that got a capture just now.
    fn drop_expired_refs(
        &self,
        expired: &BTreeMap<String, (Oid, String)>,
        reach: &mut ReachableObjects,
    ) -> Result<(), ObjectError> {
        if expired.is_empty() {
            return Ok(());
        }
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.store.repository.refs().list()?;
        let (mut gone, mut moved) = (BTreeSet::new(), Vec::new());
        for (name, (tip, _)) in expired {
            match now.get(name) {
                Some(found) if found != tip => moved.push((name, *found)),
                Some(_) | None => {
                    gone.insert(name.clone());
                }
            }
        }
        self.store.repository.refs().remove(&gone)?;
        drop(chain);
        fail_point!("snapshot::refs_dropped", |_| Err(io::Error::other("failpoint").into()));
        moved
            .into_iter()
            .try_for_each(|(name, tip)| reach.add_tip(&self.store.repository, name, &tip))
    }

    /// Garbage that stays keeps what it needs: no object of the store may lack another.
    fn keep_closure_of_unpinned(
        &self,
        packs: &[PackFile],
        chosen: &[&PackFile],
        reach: &mut ReachableObjects,
    ) -> Result<(), ObjectError> {
        let is_chosen = |pack: &PackFile| chosen.iter().any(|it| it.stem == pack.stem);
        let others = packs.iter().filter(|pack| !is_chosen(pack) && pack.owner != PackOwner::User);
        for pack in others {
            for entry in pack.entries()? {
                if !reach.has(&entry.oid) {
                    reach.add_unpinned(&self.store.repository, &entry.oid)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces packs by one with what is needed of them; the last look is taken when no capture runs.
    fn rebuild_packs(
        &self,
        old: &[&PackFile],
        reach: &mut ReachableObjects,
    ) -> Result<Option<String>, ObjectError> {
        if old.is_empty() {
            return Ok(None);
        }
        let rebuild = PackRebuild::new(&self.store.repository, old, &|oid| reach.has(oid))?;
        let (name, _) = rebuild.finish(&|oid| reach.delta_sort_key(oid), 0)?;
        fail_point!("snapshot::repacked", |_| Err(io::Error::other("failpoint").into()));
        // Waits for a running capture of the whole worktree before the exclusive lock blocks others.
        let running = self.store.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.store.objects_lock.write().unwrap_or_else(PoisonError::into_inner);
        let mut late = HashSet::new();
        for (reference, tip) in self.store.repository.refs().list()? {
            if reach.tips.get(&reference) != Some(&tip) {
                reach.add_commit(&self.store.repository, &tip, &mut |oid| {
                    late.insert(*oid);
                })?;
            }
        }
        let more = PackRebuild::new(&self.store.repository, old, &|oid| late.contains(oid))?;
        let more = if more.object_count() > 0 { more.finish(&|_| None, 0)?.0 } else { None };
        let stays =
            |pack: &&PackFile| [&name, &more].into_iter().flatten().any(|stem| *stem == pack.stem);
        let old: Vec<&PackFile> = old.iter().copied().filter(|pack| !stays(pack)).collect();
        // If the packs were deleted first, a crash would leave cached entries for objects that are gone.
        self.store.forget_dropped_objects(&|oid| reach.has(oid))?;
        self.store.repository.hide_packs(&old)?;
        drop((taken, running));
        self.store.repository.remove_packs(&old)?;
        Ok(name)
    }
}

/// Unpinned objects, and our packs that hold some: their dead and their live bytes.
struct GarbageObjects<'p> {
    objects: HashSet<Oid>,
    packs: Vec<(&'p PackFile, u64, u64)>,
}

fn find_garbage<'p>(
    packs: &'p [PackFile],
    reach: &ReachableObjects,
) -> io::Result<GarbageObjects<'p>> {
    let mut garbage = GarbageObjects { objects: HashSet::new(), packs: Vec::new() };
    for pack in packs.iter().filter(|pack| pack.owner == PackOwner::Store) {
        let (mut dead, mut alive) = (0, 0);
        for entry in pack.entries()? {
            if reach.has(&entry.oid) {
                alive += entry.length;
            } else {
                dead += entry.length;
                garbage.objects.insert(entry.oid);
            }
        }
        if dead > 0 {
            garbage.packs.push((pack, dead, alive));
        }
    }
    Ok(garbage)
}

impl<'p> GarbageObjects<'p> {
    /// True if nothing of a pack stays.
    fn is_entirely_garbage(&self, pack: &PackFile) -> bool {
        self.packs.iter().any(|(it, _, alive)| it.stem == pack.stem && *alive == 0)
    }

    /// Chooses packs of which most is dead, as long as no more than `effort` bytes must be copied.
    fn choose_packs(&self, effort: u64) -> Vec<&'p PackFile> {
        let mut all: Vec<_> = self.packs.iter().collect();
        all.sort_by(|(_, dead, alive), (_, other_dead, other_alive)| {
            let (one, other) = (u128::from(*dead), u128::from(*other_dead));
            (other * u128::from(*alive + dead)).cmp(&(one * u128::from(*other_alive + other_dead)))
        });
        let mut sum = 0_u64;
        let fits = |alive: u64, sum: &mut u64| {
            let after = sum.saturating_add(alive);
            let fits = after <= effort;
            *sum = if fits { after } else { *sum };
            fits
        };
        all.into_iter().filter(|it| fits(it.2, &mut sum)).map(|it| it.0).collect()
    }
}
