//! System calls fail while a restore runs: a report or a typed error, and no file lost or cut off.

use std::path::Path;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{DiffOptions, PinGroup};
use turnstone_testkit::fault::{Errno, Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::TempDataDir;

use crate::store_process::{
    Fallible, WorktreeStates, check_no_temp_files, check_store, store_process_command,
};

/// What holds after a step from one state to another that may have failed anywhere.
fn check_between_states(dir: &Path, states: &WorktreeStates, from: usize, to: usize) -> Fallible {
    let store = check_store(dir, &[])?;
    check_no_temp_files(&dir.join("work"))?;
    let mut ids = store.captures().list(&PinGroup::new("states"))?;
    ids.reverse();
    let [from, to] = [from, to].map(|index| ids[index % states.len()]);
    let (from, to) = (store.captures().get(&from)?, store.captures().get(&to)?);
    let now = store.capture(&PinGroup::new("judge"), EpochMillis(1))?.capture;
    let options = DiffOptions::default();
    let new = store.diffs().between(&to, &now, &options)?;
    let old = store.diffs().between(&from, &now, &options)?;
    let is_damaged = |path| new.files.iter().any(|file| file.path == path);
    match old.files.into_iter().find(|file| is_damaged(file.path.clone())) {
        Some(file) => Err(format!("{} is neither old nor new", file.path).into()),
        None => Ok(()),
    }
}

fn restore_with_fault(call: Syscall, error: Errno, whens: &[u16]) -> Fallible {
    let data = TempDataDir::in_memory()?;
    let states = WorktreeStates::make(data.path(), 4)?;
    let mut at = states.len() - 1;
    let mut fired = 0;
    for when in whens {
        let about = format!("{call:?} {error:?} at {when}");
        let command = store_process_command(data.path(), &["step", &(at + 1).to_string(), "1"])?;
        let run = FaultPlan::new(Fault::new(call).error(error).when(*when)).run(&command)?;
        fired += run.injection_count();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let ended = run.status.success() || said.starts_with("error: ");
        assert!(ended, "{about}: {said}");
        check_between_states(data.path(), &states, at, at + 1)
            .map_err(|error| format!("{about}: {error} {said}"))?;
        // Without faults it goes where it should have gone.
        let output =
            store_process_command(data.path(), &["step", &(at + 1).to_string(), "1"])?.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        at = (at + 1) % states.len();
        assert!(text.ends_with(&format!("done {at} 0\n")), "{about}: {text}");
        check_between_states(data.path(), &states, at, at)?;
    }
    assert!(fired > 0, "{call:?}: no fault fired");
    Ok(())
}

#[test]
fn restore_with_failing_writes_loses_no_file() -> Fallible {
    restore_with_fault(Syscall::Write, Errno::Enospc, &[1, 2, 3, 5, 8])?;
    restore_with_fault(Syscall::Ftruncate, Errno::Eio, &[1])
}

#[test]
fn restore_with_failing_syncs_loses_no_file() -> Fallible {
    restore_with_fault(Syscall::Fsync, Errno::Eio, &[1, 2, 4, 6, 9, 12, 15, 18, 21, 24])
}

#[test]
fn restore_with_failing_renames_loses_no_file() -> Fallible {
    restore_with_fault(Syscall::Rename, Errno::Eio, &[1, 2, 3, 5, 7, 9])?;
    restore_with_fault(Syscall::Rename, Errno::Enospc, &[1, 2, 4])
}

#[test]
fn restore_with_failing_unlinks_and_mkdirs_loses_no_file() -> Fallible {
    restore_with_fault(Syscall::Unlink, Errno::Eio, &[1, 2, 3, 4])?;
    restore_with_fault(Syscall::Mkdir, Errno::Enospc, &[1, 2])
}

/// An old file system: no flag of rename works (R15).
#[test]
fn restore_works_without_renameat2_flags() -> Fallible {
    let data = TempDataDir::in_memory()?;
    let states = WorktreeStates::make(data.path(), 4)?;
    let mut command = store_process_command(data.path(), &["step", "0", "4"])?;
    command.env("FAILPOINTS", "snapshot::no_flags=return");
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.ends_with("done 3 0\n"), "{text}");
    check_between_states(data.path(), &states, 3, 3)
}
