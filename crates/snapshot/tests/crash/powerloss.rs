//! The plug is pulled (R34): 0 returned snapshot ids lost, wherever the disk may stop.

use std::path::Path;

use turnstone_testkit::fixture::TempData;
use turnstone_testkit::powerloss::{Policy, Recorder, Recording};

use crate::vault::{Fallible, States, acks, check, commit, vault};

fn record() -> Fallible<Recording> {
    let data = TempData::in_memory()?;
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

/// Restores five states one after the other, with the power cut at any point.
fn cut_while_restoring(failpoints: &str, cuts: usize) -> Fallible {
    let data = TempData::in_memory()?;
    let states = States::make(data.path(), 5)?;
    let mut command = vault(data.path(), &["step", "0", "5"])?;
    command.env("FAILPOINTS", failpoints);
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let check = |image: &Path, lines: &[String]| {
        states.check_cut(image, lines).map_err(|error| error.to_string())
    };
    for (policy, seed) in [(Policy::STRICT, 3), (Policy::torn(2), 4)] {
        let points = recording.sample(cuts, seed);
        let losses = recording.losses(&points, policy, check)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// Every file is wholly old or wholly new at the cut, and `resume` finishes what was begun.
#[test]
fn a_power_cut_while_restoring_leaves_whole_files_and_is_finished_r34() -> Fallible {
    cut_while_restoring("", 40)
}

#[test]
fn a_power_cut_while_restoring_without_exchange_is_finished_as_well_r34() -> Fallible {
    cut_while_restoring("snapshot::no_exchange=return", 20)
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

/// A finished plan that came back would be done again: whoever writes the old bytes by hand after the
/// cut keeps them (R17).
#[test]
fn a_finished_restore_is_not_done_again_after_a_power_cut_r17() -> Fallible {
    let data = TempData::in_memory()?;
    States::make(data.path(), 3)?;
    let old = fs_err::read_to_string(data.path().join("work/a"))?;
    let command = vault(data.path(), &["step", "0", "1"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let by_hand = |image: &Path, _: &[String]| -> Fallible {
        let file = image.join("work/a");
        if fs_err::read_to_string(&file)? == old {
            return Err("the restore is lost".into());
        }
        fs_err::write(&file, &old)?;
        check(image, &[])?;
        let is_kept = fs_err::read_to_string(file)? == old;
        if is_kept { Ok(()) } else { Err("the restore was done again".into()) }
    };
    for policy in [Policy::STRICT, Policy::torn(3), Policy::torn(4)] {
        let losses = recording.losses(&[recording.end()], policy, by_hand)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}
