//! Differences, and taking things back.

use super::benchmark_case::{measure_millis, time_peer};
use super::opencode_git::OpenCodeGit;
use super::operation_timings::{OperationTimings, PerformanceGoal};
use super::steady_state::BenchmarkSides;
use crate::Fallible;

/// Files in a difference and in a revert.
const CHANGED_FILES: usize = 100;

impl BenchmarkSides<'_> {
    /// The difference of two captures in which 100 files differ.
    pub(crate) fn measure_diff(&self) -> Fallible<OperationTimings> {
        let mut row = OperationTimings::new(
            format!("diff of {CHANGED_FILES} files"),
            PerformanceGoal::MinSpeedup(5.0),
        );
        let chosen = self.tree.spread_indexes(CHANGED_FILES);
        let from = self.write_and_capture(&chosen, 200)?;
        let before = self.watching.capture()?.capture;
        let to = self.write_and_capture(&chosen, 201)?;
        let after = self.watching.capture()?.capture;
        for round in 0..self.case.rounds {
            for turn in 0..2 {
                let found = match (turn + round) % 2 {
                    0 => {
                        let (time, found) = measure_millis(|| self.watching.diff(&before, &after))?;
                        row.ours.push(time);
                        Some(found)
                    }
                    _ => time_peer(&mut row, &self.peer, |peer| peer.diff_full(&from, &to))?,
                };
                if found.is_some_and(|found| found != chosen.len()) {
                    return Err(format!("{found:?} files differ").into());
                }
            }
        }
        Ok(row)
    }

    /// Undoes 100 files: the peer's is track + revert + diff + diffFull.
    pub(crate) fn measure_revert(&self) -> Fallible<OperationTimings> {
        let mut row = OperationTimings::new(
            format!("revert of {CHANGED_FILES} files"),
            PerformanceGoal::MinSpeedup(5.0),
        );
        let chosen = self.tree.spread_indexes(CHANGED_FILES);
        let paths: Vec<String> = chosen.iter().map(|n| self.tree.file_path(*n)).collect();
        let from = self.write_and_capture(&chosen, 300)?;
        let before = self.watching.capture()?.capture;
        for round in 0..self.case.rounds {
            for turn in 0..2 {
                let to = self.write_and_capture(&chosen, 301)?;
                let after = self.watching.capture()?.capture;
                if (turn + round) % 2 == 0 {
                    let targets = self.watching.revert_targets(&before, &after, &paths)?;
                    row.ours.push(measure_millis(|| self.watching.revert(&targets))?.0);
                } else {
                    let work = |peer: &OpenCodeGit| -> Fallible {
                        let snapshot = peer.track()?;
                        peer.revert(&from, &paths)?;
                        peer.diff(&snapshot)?;
                        peer.diff_full(&from, &to)?;
                        Ok(())
                    };
                    time_peer(&mut row, &self.peer, work)?;
                }
                self.require_version(&chosen, 300)?;
            }
        }
        Ok(row)
    }

    /// Makes the worktree equal to a capture from which one file differs, and captures it again.
    pub(crate) fn measure_unrevert(&self) -> Fallible<Vec<OperationTimings>> {
        let mut row =
            OperationTimings::new("unrevert, one file differs", PerformanceGoal::MinSpeedup(50.0));
        let mut next = OperationTimings::new("capture after an unrevert", PerformanceGoal::None);
        // A new snapshot repository of a fresh checkout: the old one may lag behind by thousands of files.
        self.tree.reset()?;
        let peer = self.case.open_peer("second-shadow", &self.tree.path);
        self.tree.write_version(0, 400)?;
        self.case.wait_until_not_racy();
        let tree = peer.track()?;
        let target = self.watching.capture()?.capture;
        let rounds = self.case.slow_rounds().max(self.case.rounds.min(3));
        for round in 0..rounds {
            self.tree.write_version(0, 401)?;
            self.case.wait_until_not_racy();
            row.ours.push(measure_millis(|| self.watching.restore(&target))?.0);
            self.require_version(&[0], 400)?;
            next.ours.push(measure_millis(|| self.watching.capture())?.0);
            self.tree.write_version(0, 401)?;
            self.case.wait_until_not_racy();
            time_peer(&mut row, &peer, |peer| peer.restore(&tree))?;
            self.require_version(&[0], 400)?;
            self.case.wait_until_not_racy();
            if round + 1 == rounds {
                // Every file was rewritten, so its next capture reads them all.
                time_peer(&mut next, &peer, OpenCodeGit::track)?;
            } else {
                self.watching.capture()?;
            }
        }
        Ok(vec![row, next])
    }

    /// Writes a version of files and lets every side capture it.
    fn write_and_capture(&self, chosen: &[usize], version: usize) -> Fallible<String> {
        chosen.iter().try_for_each(|n| self.tree.write_version(*n, version))?;
        self.capture_unmeasured()
    }

    fn require_version(&self, chosen: &[usize], version: usize) -> Fallible {
        for n in chosen {
            if !self.tree.has_version(*n, version)? {
                return Err(format!("{} was not undone", self.tree.file_path(*n)).into());
            }
        }
        Ok(())
    }
}
