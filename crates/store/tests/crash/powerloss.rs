//! The plug is pulled (R34): 0 acknowledged events lost, at every point where the disk may stop.

use std::path::Path;

use crate::ledger::{Fallible, acks, check, ledger};
use turnstone_testkit::fixture::TempDataDir;
use turnstone_testkit::powerloss::{PowerCutPolicy, Recorder, Recording};

fn record(threads: &str, turns: &str) -> Fallible<Recording> {
    let data = TempDataDir::new()?;
    let command = ledger(data.path(), &["load", "1", threads, turns])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert!(acks(&recording.acknowledged(&recording.end())).len() > 20);
    Ok(recording)
}

fn check_image(image: &Path, lines: &[String]) -> Result<(), String> {
    check(image, &acks(lines)).map_err(|e| e.to_string())
}

#[test]
fn power_cut_at_any_point_keeps_acknowledged_writes() -> Fallible {
    let recording = record("3", "2")?;
    for (policy, seed) in
        [(PowerCutPolicy::STRICT, 1), (PowerCutPolicy::torn(1), 2), (PowerCutPolicy::torn(2), 3)]
    {
        let points = recording.sample_points(70, seed);
        let losses = recording.find_losses(&points, policy, check_image)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

#[test]
fn power_cut_during_first_start_is_recoverable() -> Fallible {
    let recording = record("1", "1")?;
    let points: Vec<_> = recording.cut_points().into_iter().take(60).collect();
    let losses = recording.find_losses(&points, PowerCutPolicy::STRICT, check_image)?;
    assert!(losses.is_empty(), "{}", losses[0]);
    Ok(())
}

/// The proof that the test can fail: the same run with syncs that do nothing must lose something.
#[test]
fn without_fsync_the_check_detects_losses() -> Fallible {
    let recording = record("3", "2")?;
    let points = recording.sample_points(25, 5);
    let losses =
        recording.find_losses(&points, PowerCutPolicy::STRICT.ignoring_fsync(), check_image)?;
    assert!(!losses.is_empty(), "a store without fsync passed the check");
    Ok(())
}
