//! The plug is pulled (R34): 0 returned snapshot ids lost, wherever the disk may stop.

use std::path::Path;

use turnstone_testkit::fixture::TempData;
use turnstone_testkit::powerloss::{Policy, Recorder, Recording};

use crate::vault::{Fallible, acks, check, commit, vault};

fn record() -> Fallible<Recording> {
    let data = TempData::new()?;
    fs_err::create_dir(data.path().join("work"))?;
    let command = vault(data.path(), &["load", "1", "6"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert!(acks(&recording.acknowledged(&recording.end())).len() > 3);
    Ok(recording)
}

fn sound(image: &Path, lines: &[String]) -> Result<(), String> {
    check(image, &acks(lines)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_power_cut_at_any_point_loses_no_returned_id() -> Fallible {
    let recording = record()?;
    for (policy, seed) in [(Policy::STRICT, 1), (Policy::torn(1), 2)] {
        let points = recording.sample(50, seed);
        let losses = recording.losses(&points, policy, sound)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// The proof that the test can fail: the same run with syncs that do nothing must lose something.
#[test]
fn without_fsync_the_same_check_finds_losses() -> Fallible {
    let recording = record()?;
    let points = recording.sample(20, 5);
    let losses = recording.losses(&points, Policy::STRICT.ignoring_fsync(), sound)?;
    assert!(!losses.is_empty(), "a store without fsync passed the check");
    Ok(())
}

/// The packs of a loan are the user's, who need not have synced them; the captures that rely on them are ours.
#[test]
fn a_power_cut_during_a_loan_loses_no_returned_id_r10() -> Fallible {
    let data = TempData::new()?;
    fs_err::create_dir(data.path().join("work"))?;
    commit(data.path())?;
    let command = vault(data.path(), &["loan", "1", "2"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let lines = recording.acknowledged(&recording.end());
    assert!(lines.contains(&"reused 24".to_owned()), "{lines:?}");
    let points = recording.sample(50, 3);
    let losses = recording.losses(&points, Policy::STRICT, sound)?;
    assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    Ok(())
}
