//! The plug is pulled (R34): 0 acknowledged events lost, at every point where the disk may stop.

use std::path::Path;

use crate::ledger::{Fallible, acks, check, ledger};
use turnstone_testkit::fixture::TempData;
use turnstone_testkit::powerloss::{Policy, Recorder, Recording};

fn record(threads: &str, turns: &str) -> Fallible<Recording> {
    let data = TempData::new()?;
    let command = ledger(data.path(), &["load", "1", threads, turns])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert!(acks(&recording.acknowledged(&recording.end())).len() > 20);
    Ok(recording)
}

fn sound(image: &Path, lines: &[String]) -> Result<(), String> {
    check(image, &acks(lines)).map_err(|e| e.to_string())
}

#[test]
fn a_power_cut_at_any_point_loses_nothing_acknowledged() -> Fallible {
    let recording = record("3", "2")?;
    for (policy, seed) in [(Policy::STRICT, 1), (Policy::torn(1), 2), (Policy::torn(2), 3)] {
        let points = recording.sample(70, seed);
        let losses = recording.losses(&points, policy, sound)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

#[test]
fn the_first_start_survives_a_power_cut_at_any_point() -> Fallible {
    let recording = record("1", "1")?;
    let points: Vec<_> = recording.points().into_iter().take(60).collect();
    let losses = recording.losses(&points, Policy::STRICT, sound)?;
    assert!(losses.is_empty(), "{}", losses[0]);
    Ok(())
}

/// The proof that the test can fail: the same run with syncs that do nothing must lose something.
#[test]
fn without_fsync_the_same_check_finds_losses() -> Fallible {
    let recording = record("3", "2")?;
    let points = recording.sample(25, 5);
    let losses = recording.losses(&points, Policy::STRICT.ignoring_fsync(), sound)?;
    assert!(!losses.is_empty(), "a store without fsync passed the check");
    Ok(())
}
