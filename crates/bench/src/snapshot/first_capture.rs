//! First captures: of a tree nobody committed, of a checkout, and a named write meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use super::benchmark_case::{BenchmarkCase, disk_usage, measure_millis, time_peer};
use super::generated_tree::GeneratedTree;
use super::operation_timings::{OperationTimings, PerformanceGoal};
use super::own_store::OwnStore;
use crate::Fallible;

/// Bytes that both sides store for the same tree.
pub(crate) struct StoredBytes {
    pub(crate) operation: &'static str,
    pub(crate) ours: u64,
    pub(crate) peer: Option<u64>,
}

/// Measures the first capture of `tree`, each time into a new store.
pub(crate) fn measure_first_capture(
    case: &BenchmarkCase,
    tree: &GeneratedTree,
    committed: bool,
) -> Fallible<(OperationTimings, StoredBytes)> {
    let (what, goal, slow) = match committed {
        true => {
            ("first capture, committed checkout", PerformanceGoal::MaxSlowdown(2.0), case.rounds)
        }
        false => {
            ("first capture, never committed", PerformanceGoal::MinSpeedup(8.0), case.slow_rounds())
        }
    };
    let mut row = OperationTimings::new(what, goal);
    let mut stored = StoredBytes { operation: what, ours: 0, peer: None };
    let (store, peer_folder) = (case.dir.join("first-store"), case.dir.join("first-shadow"));
    for round in 0..case.rounds {
        let ours = |row: &mut OperationTimings, stored: &mut StoredBytes| -> Fallible<String> {
            let (time, tree) = measure_millis(|| {
                let captured = OwnStore::open(&store, &tree.path)?.capture()?;
                Ok(captured.capture.tree.to_string())
            })?;
            row.ours.push(time);
            stored.ours = disk_usage(&store)?;
            fs_err::remove_dir_all(&store)?;
            Ok(tree)
        };
        let theirs =
            |row: &mut OperationTimings, stored: &mut StoredBytes| -> Fallible<Option<String>> {
                if round >= slow {
                    return Ok(None);
                }
                let tree =
                    time_peer(row, &case.open_peer("first-shadow", &tree.path), |it| it.track())?;
                stored.peer = tree.is_some().then(|| disk_usage(&peer_folder)).transpose()?;
                fs_err::remove_dir_all(&peer_folder)?;
                Ok(tree)
            };
        let (one, other) = match round % 2 {
            0 => (ours(&mut row, &mut stored)?, theirs(&mut row, &mut stored)?),
            _ => {
                let other = theirs(&mut row, &mut stored)?;
                (ours(&mut row, &mut stored)?, other)
            }
        };
        if other.is_some_and(|other| other != one) {
            return Err(format!("{what}: the trees differ").into());
        }
    }
    Ok((row, stored))
}

/// Measures captures of one named path while the first capture runs.
pub(crate) fn measure_named_captures(
    case: &BenchmarkCase,
    tree: &GeneratedTree,
) -> Fallible<OperationTimings> {
    let store = case.dir.join("named-store");
    let mut times = Vec::new();
    for _ in 0..case.rounds {
        {
            let ours = OwnStore::open(&store, &tree.path)?;
            times.extend(capture_named_meanwhile(&ours, tree)?);
        }
        fs_err::remove_dir_all(&store)?;
    }
    // The files that were written are put back, so that what follows sees the tree as it was.
    tree.write_version(0, 0)?;
    let worst = times.iter().copied().fold(0.0, f64::max);
    let what = format!("named write during a first capture (worst {worst:.1} ms)");
    let mut row = OperationTimings::new(what, PerformanceGoal::MaxMillis(10.0));
    row.ours = times;
    if row.ours.is_empty() {
        return Err("no named write was measured".into());
    }
    Ok(row)
}

/// Runs the first capture on a thread of its own and concurrent captures of named paths until it ends.
fn capture_named_meanwhile(ours: &OwnStore, tree: &GeneratedTree) -> Fallible<Vec<f64>> {
    let ended = AtomicBool::new(false);
    let own_store = &ours.store;
    std::thread::scope(|scope| {
        let whole = scope.spawn(|| {
            let group = turnstone_snapshot::PinGroup::new("whole");
            let done =
                own_store.capture(&group, turnstone_core::time::EpochMillis(1_794_728_448_904));
            ended.store(true, Ordering::Release);
            done.map(|_| ()).map_err(|error| error.to_string())
        });
        let mut times = Vec::new();
        for version in 1.. {
            tree.write_version(0, version)?;
            let (time, _) = measure_millis(|| ours.capture_named("named", &tree.file_path(0)))?;
            // What ended after the first capture did not run concurrently.
            if ended.load(Ordering::Acquire) {
                break;
            }
            times.push(time);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        whole.join().map_err(|_| "the first capture panicked")??;
        Ok(times)
    })
}
