//! System calls fail while a restore runs: a report or a typed error, and no file lost or cut off.

use std::path::Path;

use turnstone_core::time::Millis;
use turnstone_snapshot::{DiffOptions, Group};
use turnstone_testkit::fault::{Errno, Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::TempData;

use crate::vault::{Fallible, States, check, no_temp, vault};

/// What holds after a step from one state to another that may have failed anywhere.
fn sound(dir: &Path, states: &States, from: usize, to: usize) -> Fallible {
    let shadow = check(dir, &[])?;
    no_temp(&dir.join("work"))?;
    let mut ids = shadow.list_captures(&Group::new("states"))?;
    ids.reverse();
    let [from, to] = [from, to].map(|index| ids[index % states.len()]);
    let (from, to) = (shadow.get_capture(&from)?, shadow.get_capture(&to)?);
    let now = shadow.capture(&Group::new("judge"), Millis(1))?.capture;
    let options = DiffOptions::default();
    let new = shadow.diff(&to, &now, &options)?;
    let old = shadow.diff(&from, &now, &options)?;
    let is_damaged = |path| new.files.iter().any(|file| file.path == path);
    match old.files.into_iter().find(|file| is_damaged(file.path.clone())) {
        Some(file) => Err(format!("{} is neither old nor new", file.path).into()),
        None => Ok(()),
    }
}

fn restore_under(call: Syscall, error: Errno, whens: &[u16]) -> Fallible {
    let data = TempData::in_memory()?;
    let states = States::make(data.path(), 4)?;
    let mut at = states.len() - 1;
    let mut fired = 0;
    for when in whens {
        let about = format!("{call:?} {error:?} at {when}");
        let command = vault(data.path(), &["step", &(at + 1).to_string(), "1"])?;
        let run = FaultPlan::new(Fault::new(call).error(error).when(*when)).run(&command)?;
        fired += run.fired();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let ended = run.status.success() || said.starts_with("error: ");
        assert!(ended, "{about}: {said}");
        sound(data.path(), &states, at, at + 1)
            .map_err(|error| format!("{about}: {error} {said}"))?;
        // Without faults it goes where it should have gone.
        let output = vault(data.path(), &["step", &(at + 1).to_string(), "1"])?.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        at = (at + 1) % states.len();
        assert!(text.ends_with(&format!("done {at} 0\n")), "{about}: {text}");
        sound(data.path(), &states, at, at)?;
    }
    assert!(fired > 0, "{call:?}: no fault fired");
    Ok(())
}

#[test]
fn a_restore_whose_writes_fail_loses_no_file() -> Fallible {
    restore_under(Syscall::Write, Errno::Enospc, &[1, 2, 3, 5, 8])?;
    restore_under(Syscall::Ftruncate, Errno::Eio, &[1])
}

#[test]
fn a_restore_whose_syncs_fail_loses_no_file() -> Fallible {
    restore_under(Syscall::Fsync, Errno::Eio, &[1, 2, 4, 6, 9, 12, 15, 18, 21, 24])
}

#[test]
fn a_restore_whose_renames_and_links_fail_loses_no_file() -> Fallible {
    restore_under(Syscall::Rename, Errno::Eio, &[1, 2, 3, 5, 7, 9])?;
    restore_under(Syscall::Rename, Errno::Enospc, &[1, 2, 4])
}

#[test]
fn a_restore_whose_unlinks_and_directories_fail_loses_no_file() -> Fallible {
    restore_under(Syscall::Unlink, Errno::Eio, &[1, 2, 3, 4])?;
    restore_under(Syscall::Mkdir, Errno::Enospc, &[1, 2])
}

/// An old file system: no flag of rename works (R15).
#[test]
fn a_restore_works_where_rename_knows_no_flags_r15() -> Fallible {
    let data = TempData::in_memory()?;
    let states = States::make(data.path(), 4)?;
    let mut command = vault(data.path(), &["step", "0", "4"])?;
    command.env("FAILPOINTS", "snapshot::no_flags=return");
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.ends_with("done 3 0\n"), "{text}");
    sound(data.path(), &states, 3, 3)
}
