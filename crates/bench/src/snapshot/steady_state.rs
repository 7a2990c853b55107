//! Captures of a worktree that both sides know: nothing changed, one file, many files.

use super::benchmark_case::{BenchmarkCase, measure_millis, time_peer};
use super::generated_tree::GeneratedTree;
use super::opencode_git::OpenCodeGit;
use super::operation_timings::{OperationTimings, PerformanceGoal};
use super::own_store::OwnStore;
use crate::Fallible;

/// Both sides, having captured the same worktree before.
pub(crate) struct BenchmarkSides<'c> {
    pub(crate) case: &'c BenchmarkCase,
    pub(crate) tree: &'c GeneratedTree,
    /// Finds changes by a stat walk.
    pub(crate) walking: OwnStore,
    /// Receives changes from the kernel.
    pub(crate) watching: OwnStore,
    pub(crate) peer: OpenCodeGit,
}

/// What the three ways to capture one state took.
struct CaptureTimings {
    walking: OperationTimings,
    watching: OperationTimings,
}

impl CaptureTimings {
    fn into_rows(self) -> Vec<OperationTimings> {
        let Self { walking, mut watching } = self;
        watching.peer = walking.peer.clone();
        watching.peer_stopped = walking.peer_stopped;
        watching.peer_processes = walking.peer_processes;
        vec![walking, watching]
    }
}

impl BenchmarkSides<'_> {
    /// Nothing changed since the last capture.
    pub(crate) fn measure_unchanged(&self) -> Fallible<Vec<OperationTimings>> {
        let mut trio = CaptureTimings {
            walking: OperationTimings::new(
                "nothing changed, stat walk",
                PerformanceGoal::MaxSlowdown(1.3),
            ),
            watching: OperationTimings::new(
                "nothing changed, watcher",
                PerformanceGoal::MinSpeedup(300.0),
            ),
        };
        self.case.wait_until_not_racy();
        for round in 0..self.case.rounds {
            self.measure_round(&mut trio, round, true)?;
        }
        Ok(trio.into_rows())
    }

    /// `count` files changed since the last capture.
    pub(crate) fn measure_changed(&self, count: usize) -> Fallible<Vec<OperationTimings>> {
        let (walk, watch) = match count {
            1 => (PerformanceGoal::None, PerformanceGoal::MinSpeedup(30.0)),
            10_000 => (PerformanceGoal::MinSpeedup(20.0), PerformanceGoal::MinSpeedup(20.0)),
            _ => (PerformanceGoal::None, PerformanceGoal::None),
        };
        let mut trio = CaptureTimings {
            walking: OperationTimings::new(format!("{count} changed, stat walk"), walk),
            watching: OperationTimings::new(format!("{count} changed, watcher"), watch),
        };
        let slow = if count > 1000 { self.case.slow_rounds() } else { self.case.rounds };
        for round in 0..self.case.rounds {
            for n in self.tree.spread_indexes(count) {
                self.tree.write_version((n + round) % self.tree.files, 100 + round)?;
            }
            self.case.wait_until_not_racy();
            // The slow peer sees the last rounds only; then it has the same files to read.
            self.measure_round(&mut trio, round, round + slow >= self.case.rounds)?;
        }
        Ok(trio.into_rows())
    }

    /// Measures each side once; who begins changes with the round.
    fn measure_round(&self, trio: &mut CaptureTimings, round: usize, with_peer: bool) -> Fallible {
        let mut trees = Vec::new();
        for turn in 0..3 {
            match (turn + round) % 3 {
                0 => {
                    let (time, captured) = measure_millis(|| self.walking.capture())?;
                    trio.walking.ours.push(time);
                    trees.push(captured.capture.tree.to_string());
                }
                1 => {
                    let (time, captured) = measure_millis(|| self.watching.capture())?;
                    self.watching.require_journal(&captured)?;
                    trio.watching.ours.push(time);
                    trees.push(captured.capture.tree.to_string());
                }
                2 if with_peer => {
                    trees.extend(time_peer(&mut trio.walking, &self.peer, OpenCodeGit::track)?);
                }
                _ => {}
            }
        }
        if trees.iter().any(|tree| *tree != trees[0]) {
            return Err(format!("{}: the trees differ", trio.walking.operation).into());
        }
        Ok(())
    }

    /// Lets every side capture the present state, unmeasured.
    pub(crate) fn capture_unmeasured(&self) -> Fallible<String> {
        self.case.wait_until_not_racy();
        self.walking.capture()?;
        self.watching.capture()?;
        let tree = self.peer.track()?;
        self.case.wait_until_not_racy();
        Ok(tree)
    }
}
