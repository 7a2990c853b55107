//! Ours: an open store, as a keeper holds it, and the calls a user action needs.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use turnstone_core::time::Millis;
use turnstone_snapshot::{
    Capture, Captured, DiffOptions, Group, Mode, Plan, RelPath, Report, RootPolicy, Selection,
    Shadow, UserGit, Wish, Worktree,
};

use crate::Fallible;

/// A store of one worktree, kept by this process.
pub(crate) struct Ours {
    pub(crate) shadow: Shadow,
    group: Group,
    time: Cell<i64>,
}

impl Ours {
    /// Opens the store in `folder`, made if it is not there.
    pub(crate) fn open(folder: &Path, tree: &Path) -> Fallible<Self> {
        let worktree = Worktree::open(tree, &RootPolicy::default())?;
        // As for the peer: nobody's git settings but those of the worktree.
        let user_git = Some(UserGit::default());
        let selection = Selection { user_git, ..Selection::default() };
        let shadow = Shadow::open(folder, worktree, selection)?;
        Ok(Self { shadow, group: Group::new("bench"), time: Cell::new(1_794_728_448_904) })
    }

    /// The same, and the kernel tells it what changes.
    pub(crate) fn open_watching(folder: &Path, tree: &Path) -> Fallible<Self> {
        let ours = Self::open(folder, tree)?;
        ours.shadow.watch();
        Ok(ours)
    }

    /// Refuses to pass a walk off as the watcher's work.
    pub(crate) fn must_watch(&self, captured: &Captured) -> Fallible {
        if captured.mode == Mode::Journal {
            return Ok(());
        }
        Err(format!("the watcher was not used: {:?}", captured.journal).into())
    }

    fn now(&self) -> Millis {
        self.time.set(self.time.get() + 1);
        Millis(self.time.get())
    }

    /// Captures the worktree.
    pub(crate) fn capture(&self) -> Fallible<Captured> {
        Ok(self.shadow.capture(&self.group, self.now())?)
    }

    /// Captures one path before a tool writes it.
    pub(crate) fn capture_named(&self, group: &str, path: &str) -> Fallible<Captured> {
        let paths = BTreeSet::from([path.parse::<RelPath>()?]);
        Ok(self.shadow.capture_named(&Group::new(group), &paths, false, self.now())?)
    }

    /// Compares two captures, patches and counts and all; returns how many files differ.
    pub(crate) fn diff(&self, one: &Capture, other: &Capture) -> Fallible<usize> {
        Ok(self.shadow.diff(one, other, &DiffOptions::default())?.files.len())
    }

    /// What a turn's change set says: each path back from `after` to `before`.
    pub(crate) fn wishes(
        &self,
        before: &Capture,
        after: &Capture,
        paths: &[String],
    ) -> Fallible<Vec<Wish>> {
        let wish = |path: &String| -> Fallible<Wish> {
            let path: RelPath = path.parse()?;
            let target = self.shadow.image(before, &path)?;
            let base = Some(self.shadow.image(after, &path)?);
            Ok(Wish::new(path, base, target))
        };
        paths.iter().map(wish).collect()
    }

    /// Takes back a change set: plan, guard, write, verify, and the difference it made on disk.
    pub(crate) fn revert(&self, wishes: &[Wish]) -> Fallible<Report> {
        let plan = self.shadow.plan(wishes)?;
        let report = self.apply(&plan)?;
        let guard = self.shadow.get_capture(&report.guard.ok_or("there is no guard")?)?;
        let differ = self.shadow.diff_worktree(&guard, &DiffOptions::default())?.files.len();
        if differ != plan.steps.len() || report.restored.len() != differ {
            return Err(format!("{differ} of {} files were taken back", wishes.len()).into());
        }
        Ok(report)
    }

    /// Makes the whole worktree equal to a capture.
    pub(crate) fn restore(&self, target: &Capture) -> Fallible<Report> {
        let now = self.capture()?.capture;
        let plan = self.shadow.plan_restore(target, &now, None, false)?;
        let report = self.apply(&plan)?;
        report.guard.ok_or("there is no guard")?;
        Ok(report)
    }

    fn apply(&self, plan: &Plan) -> Fallible<Report> {
        let report = self.shadow.apply(plan, &self.group, self.now())?;
        if report.conflicts.is_empty() && report.not_covered.is_empty() {
            return Ok(report);
        }
        Err(format!("a restore left paths alone: {report:?}").into())
    }
}
