//! The plug is pulled (R34): 0 returned snapshot ids lost, wherever the disk may stop.

use std::path::Path;

use turnstone_testkit::fixture::TempDataDir;
use turnstone_testkit::powerloss::{PowerCutPolicy, Recorder, Recording};

use crate::store_process::{
    Fallible, WorktreeStates, acknowledged_captures, check_store, commit_checkout,
    store_process_command,
};

fn record_captures() -> Fallible<Recording> {
    let data = TempDataDir::in_memory()?;
    fs_err::create_dir(data.path().join("work"))?;
    let command = store_process_command(data.path(), &["load", "1", "6"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert!(acknowledged_captures(&recording.acknowledged(&recording.end())).len() > 3);
    Ok(recording)
}

fn check_image(image: &Path, lines: &[String]) -> Result<(), String> {
    check_store(image, &acknowledged_captures(lines)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn power_cut_loses_no_returned_capture() -> Fallible {
    let recording = record_captures()?;
    for (policy, seed) in [(PowerCutPolicy::STRICT, 1), (PowerCutPolicy::torn(1), 2)] {
        let points = recording.sample_points(50, seed);
        let losses = recording.find_losses(&points, policy, check_image)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// The proof that the test can fail: the same run with syncs that do nothing must lose something.
#[test]
fn power_cut_check_detects_missing_fsync() -> Fallible {
    let recording = record_captures()?;
    let points = recording.sample_points(20, 5);
    let losses =
        recording.find_losses(&points, PowerCutPolicy::STRICT.ignoring_fsync(), check_image)?;
    assert!(!losses.is_empty(), "a store without fsync passed the check");
    Ok(())
}

/// Restores five states one after the other, with the power cut at any point.
fn check_power_cuts_while_restoring(failpoints: &str, cuts: usize) -> Fallible {
    let data = TempDataDir::in_memory()?;
    let states = WorktreeStates::make(data.path(), 5)?;
    let mut command = store_process_command(data.path(), &["step", "0", "5"])?;
    command.env("FAILPOINTS", failpoints);
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let check = |image: &Path, lines: &[String]| {
        states.check_after_cut(image, lines).map_err(|error| error.to_string())
    };
    for (policy, seed) in [(PowerCutPolicy::STRICT, 3), (PowerCutPolicy::torn(2), 4)] {
        let points = recording.sample_points(cuts, seed);
        let losses = recording.find_losses(&points, policy, check)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// Every file is wholly old or wholly new at the cut, and `resume` finishes what was begun.
/// Proves R34.
#[test]
fn power_cut_during_restore_leaves_whole_files_and_resumes() -> Fallible {
    check_power_cuts_while_restoring("", 40)
}

/// Proves R34.
#[test]
fn power_cut_during_restore_without_rename_exchange_resumes() -> Fallible {
    check_power_cuts_while_restoring("snapshot::no_exchange=return", 20)
}
/// Borrowed packs are the user's, who need not have synced them; the captures that rely on them are ours.
/// Proves R10.
#[test]
fn power_cut_with_borrowed_packs_loses_no_returned_capture() -> Fallible {
    let data = TempDataDir::new()?;
    fs_err::create_dir(data.path().join("work"))?;
    commit_checkout(data.path())?;
    let command = store_process_command(data.path(), &["reuse", "1", "2"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let lines = recording.acknowledged(&recording.end());
    assert!(lines.contains(&"reused 24".to_owned()), "{lines:?}");
    let points = recording.sample_points(50, 3);
    let losses = recording.find_losses(&points, PowerCutPolicy::STRICT, check_image)?;
    assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    Ok(())
}

/// A finished plan that came back would be done again: if a person writes the old bytes by hand after the
/// cut keeps them (R17).
#[test]
fn finished_restore_is_not_repeated_after_power_cut() -> Fallible {
    let data = TempDataDir::in_memory()?;
    WorktreeStates::make(data.path(), 3)?;
    let old = fs_err::read_to_string(data.path().join("work/a"))?;
    let command = store_process_command(data.path(), &["step", "0", "1"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let by_hand = |image: &Path, _: &[String]| -> Fallible {
        let file = image.join("work/a");
        if fs_err::read_to_string(&file)? == old {
            return Err("the restore is lost".into());
        }
        fs_err::write(&file, &old)?;
        check_store(image, &[])?;
        let is_kept = fs_err::read_to_string(file)? == old;
        if is_kept { Ok(()) } else { Err("the restore was done again".into()) }
    };
    for policy in [PowerCutPolicy::STRICT, PowerCutPolicy::torn(3), PowerCutPolicy::torn(4)] {
        let losses = recording.find_losses(&[recording.end()], policy, by_hand)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}
