//! Room for the guard: what a run stores before it overwrites anything must fit on the disk of the store.

use std::collections::{BTreeMap, BTreeSet};

use gix::objs::Kind;

use super::directory_steps::is_exchange;
use super::plan::{RestoreError, RestorePlan, RestoreStep};
use crate::file_hashing::read_current_content;
use crate::object_store::{ObjectRepository, Oid, PackedObject, hash_object};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::worktree::Worktree;

/// What any run stores: the plan and its report, in the database and in files, and the guard's own trees.
const RUN_BYTES: u64 = 256 << 10;
/// What a step adds to that, whatever it writes.
const STEP_BYTES: u64 = 2 << 10;
/// How often the bytes of a merge are stored: in plans, as text, and in a pack.
const MERGE_COPIES: u64 = 6;

/// Looks whether the content that a plan overwrites can be stored first (R14).
pub(super) struct GuardSpaceCheck<'s> {
    pub(super) worktree: &'s Worktree,
    pub(super) repository: &'s ObjectRepository,
}

impl GuardSpaceCheck<'_> {
    /// Leaves out steps whose present content does not fit into `room` bytes, the largest first.
    pub(super) fn check(&self, plan: &mut RestorePlan, room: u64) -> Result<(), RestoreError> {
        let room = room.saturating_sub(RUN_BYTES);
        if plan.steps.is_empty() || self.upper_bound(plan) <= room {
            return Ok(());
        }
        let mut merges = BTreeMap::new();
        for bytes in &plan.merges {
            merges.insert(hash_object(Kind::Blob, bytes)?, bytes.len() as u64);
        }
        let mut costs = Vec::new();
        for step in &plan.steps {
            costs.push((self.cost(step, &merges)?, step.path.clone()));
        }
        costs.sort_unstable();
        let mut sum = 0;
        let left = costs.into_iter().filter_map(|(cost, path)| {
            sum += cost;
            (sum > room).then_some(path)
        });
        exclude_paths(plan, &left.collect());
        let blobs: BTreeSet<Oid> =
            plan.steps.iter().filter_map(|step| Some(step.target.leaf()?.blob)).collect();
        for bytes in std::mem::take(&mut plan.merges) {
            if blobs.contains(&hash_object(Kind::Blob, &bytes)?) {
                plan.merges.push(bytes);
            }
        }
        Ok(())
    }

    /// No run needs more than this.
    fn upper_bound(&self, plan: &RestorePlan) -> u64 {
        let size = |step: &RestoreStep| match step.expected.leaf() {
            Some(_) => self.worktree.stat(&step.path).ok().flatten().map_or(0, |stat| stat.size),
            None => 0,
        };
        let guarded: u64 = plan.steps.iter().map(|step| size(step) + STEP_BYTES).sum();
        let merged: u64 = plan.merges.iter().map(|bytes| bytes.len() as u64).sum();
        guarded.saturating_add(merged.saturating_mul(MERGE_COPIES))
    }

    /// What a step needs: nothing for content that the store has, the compressed size of any other.
    fn cost(&self, step: &RestoreStep, merges: &BTreeMap<Oid, u64>) -> Result<u64, RestoreError> {
        let guarded = match step.expected.leaf() {
            Some(leaf) if !self.repository.existence_check()(&leaf.blob) => {
                let data = read_current_content(self.worktree, &step.path).data;
                PackedObject::with_oid(leaf.blob, Kind::Blob, &data)?.packed_len()
            }
            Some(_) | None => 0,
        };
        let target = step.target.leaf().filter(|_| step.merged);
        let merged = target.and_then(|leaf| merges.get(&leaf.blob)).copied().unwrap_or(0);
        Ok(STEP_BYTES.saturating_add(guarded).saturating_add(merged.saturating_mul(MERGE_COPIES)))
    }
}

/// Takes steps out of a plan; where a file and a directory change places, all below goes with it.
fn exclude_paths(plan: &mut RestorePlan, left: &BTreeSet<RelPath>) {
    let is_exchanged = |step: &&RestoreStep| is_exchange(step);
    let exchanged: BTreeSet<RelPath> =
        plan.steps.iter().filter(is_exchanged).map(|step| step.path.clone()).collect();
    let top_of = |path: &RelPath| {
        let above = path.ancestors().filter(|above| exchanged.contains(above)).last();
        above.unwrap_or_else(|| path.clone())
    };
    let tops: BTreeSet<RelPath> = left.iter().map(top_of).collect();
    let (out, stay): (Vec<RestoreStep>, Vec<RestoreStep>) = std::mem::take(&mut plan.steps)
        .into_iter()
        .partition(|step| left.contains(&step.path) || tops.contains(&top_of(&step.path)));
    plan.steps = stay;
    plan.not_covered.extend(out.into_iter().map(|step| (step.path, UncoveredReason::NoGuard)));
    plan.not_covered.sort_by(|one, other| one.0.cmp(&other.0));
}
