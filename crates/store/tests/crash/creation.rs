//! The first moments of a database: whatever interrupts them, the next open finishes them, and the
//! doctor finds no damage.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::ledger::{Fallible, acks, check, ledger, open};
use turnstone_core::time::EpochMillis;
use turnstone_store::{DataLayout, DatabaseOpenError, diagnose};
use turnstone_testkit::crash::run_until_failpoint;
use turnstone_testkit::fault::{Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::TempDataDir;
use turnstone_testkit::powerloss::{PowerCutPolicy, Recorder};
use turnstone_testkit::test_rounds;

/// The doctor sees no damage, and the next open has a sound store.
fn check_interrupted(dir: &Path, lines: &[String]) -> Fallible {
    let before = diagnose(&DataLayout::new(dir), EpochMillis(1_794_728_500_000));
    if !before.is_sound() {
        return Err(format!("the doctor calls it damage: {:?}", before.findings).into());
    }
    check(dir, &acks(lines))
}

#[test]
fn kill_at_any_write_of_creation_is_repaired() -> Fallible {
    for call in [Syscall::Pwrite, Syscall::Ftruncate, Syscall::Rename, Syscall::Fdatasync] {
        for nth in 1..u16::try_from(test_rounds::choose_rounds(1, 12))? {
            let data = TempDataDir::new()?;
            let plan = FaultPlan::new(Fault::new(call).kills().when(nth));
            let run = plan.run(&ledger(data.path(), &["load", "1", "1", "1"])?)?;
            check_interrupted(data.path(), &run.acknowledged())
                .map_err(|error| format!("{call:?} {nth}: {error}"))?;
            if run.status.signal() != Some(9) {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn kill_at_each_failpoint_of_creation_is_repaired() -> Fallible {
    for point in ["store::in_migration", "store::database_complete", "store::database_named"] {
        let data = TempDataDir::new()?;
        let mut command = ledger(data.path(), &["load", "1", "1", "1"])?;
        let limit = std::time::Duration::from_secs(60);
        run_until_failpoint(&mut command, &format!("{point}=panic"), limit)?;
        check_interrupted(data.path(), &[]).map_err(|error| format!("{point}: {error}"))?;
    }
    Ok(())
}

#[test]
fn power_cut_at_any_point_of_creation_is_repaired() -> Fallible {
    let data = TempDataDir::new()?;
    let command = ledger(data.path(), &["load", "1", "1", "1"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let check_image =
        |image: &Path, lines: &[String]| check_interrupted(image, lines).map_err(|e| e.to_string());
    let points: Vec<_> = recording.cut_points().into_iter().take(70).collect();
    for seed in 0..test_rounds::choose_rounds(1, 1) {
        for policy in [PowerCutPolicy::torn(seed), PowerCutPolicy::torn(seed).ordered()] {
            let losses = recording.find_losses(&points, policy, check_image)?;
            assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
        }
    }
    Ok(())
}

/// What earlier versions left when they were cut off: they wrote the database in its place.
#[test]
fn remains_of_earlier_interrupted_creations_are_repaired() -> Fallible {
    let header = b"SQLite format 3\0";
    let states: [(&str, Vec<u8>); 5] = [
        ("an empty file", Vec::new()),
        ("one zero byte", vec![0]),
        ("a page of zeros", vec![0; 4096]),
        ("half a header", header[..7].to_vec()),
        ("a header and zeros", [&header[..], &[0; 4080]].concat()),
    ];
    for (what, content) in states {
        let data = TempDataDir::new()?;
        fs_err::write(data.join("turnstone.db"), content)?;
        check_interrupted(data.path(), &[]).map_err(|error| format!("{what}: {error}"))?;
    }
    Ok(())
}

#[test]
fn write_ahead_log_without_database_is_kept_aside() -> Fallible {
    let data = TempDataDir::new()?;
    let lost = vec![7; 8192];
    fs_err::write(data.join("turnstone.db-wal"), &lost)?;
    check_interrupted(data.path(), &[])?;
    let kept: Vec<_> = fs_err::read_dir(data.join("backup"))?.collect::<Result<_, _>>()?;
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs_err::read(kept[0].path())?, lost);
    Ok(())
}

#[test]
fn foreign_file_with_hot_journal_is_refused_unchanged() -> Fallible {
    let data = TempDataDir::new()?;
    let file = data.join("turnstone.db");
    let text = b"SQLite format 3\0 and then notes of a person".to_vec();
    fs_err::write(&file, &text)?;
    fs_err::write(data.join("turnstone.db-journal"), b"theirs")?;
    let refused = open(data.path()).err().ok_or("it was opened")?;
    let refused = refused.downcast::<DatabaseOpenError>()?;
    assert!(matches!(*refused, DatabaseOpenError::Corrupt { .. }), "{refused}");
    assert_eq!(fs_err::read(&file)?, text);
    assert_eq!(fs_err::read(data.join("turnstone.db-journal"))?, b"theirs");
    Ok(())
}
