//! Ours: an open store, as a keeper holds it, and the calls a user action needs.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    Capture, CaptureMode, CaptureOutcome, CaptureRules, DiffOptions, PinGroup, RelPath,
    RestorePlan, RestoreReport, RootPolicy, SnapshotStore, TargetState, UserGitSettings, Worktree,
};

use crate::Fallible;

/// A store of one worktree, kept by this process.
pub(crate) struct OwnStore {
    pub(crate) store: SnapshotStore,
    group: PinGroup,
    time: Cell<i64>,
}

impl OwnStore {
    /// Opens the store in `folder`, made if it is not there.
    pub(crate) fn open(folder: &Path, tree: &Path) -> Fallible<Self> {
        let worktree = Worktree::open(tree, &RootPolicy::default())?;
        // As for the peer: nobody's git settings but those of the worktree.
        let user_git = Some(UserGitSettings::default());
        let selection = CaptureRules { user_git, ..CaptureRules::default() };
        let store = SnapshotStore::open(folder, worktree, selection)?;
        Ok(Self { store, group: PinGroup::new("bench"), time: Cell::new(1_794_728_448_904) })
    }

    /// The same, and the kernel tells it what changes.
    pub(crate) fn open_watching(folder: &Path, tree: &Path) -> Fallible<Self> {
        let ours = Self::open(folder, tree)?;
        ours.store.journal().start();
        Ok(ours)
    }

    /// Refuses to pass a walk off as the watcher's work.
    pub(crate) fn require_journal(&self, captured: &CaptureOutcome) -> Fallible {
        if captured.mode == CaptureMode::Journal {
            return Ok(());
        }
        Err(format!("the watcher was not used: {:?}", captured.journal).into())
    }

    fn now(&self) -> EpochMillis {
        self.time.set(self.time.get() + 1);
        EpochMillis(self.time.get())
    }

    /// Captures the worktree.
    pub(crate) fn capture(&self) -> Fallible<CaptureOutcome> {
        Ok(self.store.capture(&self.group, self.now())?)
    }

    /// Captures one path before a tool writes it.
    pub(crate) fn capture_named(&self, group: &str, path: &str) -> Fallible<CaptureOutcome> {
        let paths = BTreeSet::from([path.parse::<RelPath>()?]);
        Ok(self.store.capture_named(&PinGroup::new(group), &paths, false, self.now())?)
    }

    /// Compares two captures, patches and counts and all; returns how many files differ.
    pub(crate) fn diff(&self, one: &Capture, other: &Capture) -> Fallible<usize> {
        Ok(self.store.diffs().between(one, other, &DiffOptions::default())?.files.len())
    }

    /// What a turn's change set says: each path back from `after` to `before`.
    pub(crate) fn revert_targets(
        &self,
        before: &Capture,
        after: &Capture,
        paths: &[String],
    ) -> Fallible<Vec<TargetState>> {
        let target_of = |path: &String| -> Fallible<TargetState> {
            let path: RelPath = path.parse()?;
            let target = self.store.captures().path_image(before, &path)?;
            let base = Some(self.store.captures().path_image(after, &path)?);
            Ok(TargetState::new(path, base, target))
        };
        paths.iter().map(target_of).collect()
    }

    /// Undoes a change set: plan, guard, write, verify, and the difference it made on disk.
    pub(crate) fn revert(&self, targets: &[TargetState]) -> Fallible<RestoreReport> {
        let plan = self.store.planner().plan_targets(targets)?;
        let report = self.apply(&plan)?;
        let guard = self.store.captures().get(&report.guard.ok_or("there is no guard")?)?;
        let differ = self.store.diffs().with_worktree(&guard, &DiffOptions::default())?.files.len();
        if differ != plan.steps.len() || report.restored.len() != differ {
            return Err(format!("{differ} of {} files were undone", targets.len()).into());
        }
        Ok(report)
    }

    /// Makes the whole worktree equal to a capture.
    pub(crate) fn restore(&self, target: &Capture) -> Fallible<RestoreReport> {
        let now = self.capture()?.capture;
        let plan = self.store.planner().plan_restore(target, &now, None, false)?;
        let report = self.apply(&plan)?;
        report.guard.ok_or("there is no guard")?;
        Ok(report)
    }

    fn apply(&self, plan: &RestorePlan) -> Fallible<RestoreReport> {
        let report = self.store.restores().apply_plan(plan, &self.group, self.now())?;
        if report.conflicts.is_empty() && report.not_covered.is_empty() {
            return Ok(report);
        }
        Err(format!("a restore left paths alone: {report:?}").into())
    }
}
