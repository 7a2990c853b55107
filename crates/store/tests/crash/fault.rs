//! Failed writes and syncs, full disks, cut logs (R35): a clear error, nothing acknowledged lost.

use std::time::Duration;

use crate::ledger::{Fallible, acks, check, ledger};
use fs_err as fs;
use turnstone_testkit::fault::{Errno, Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::TempDataDir;

/// Runs the writer with a fault on the write-ahead log, then checks what it had acknowledged.
fn with_fault(fault: Fault, says: &[&str]) -> Fallible {
    let data = TempDataDir::new()?;
    // The file exists and is healthy before the fault.
    assert!(ledger(data.path(), &["load", "1", "2", "1"])?.output()?.status.success());
    let plan =
        FaultPlan::new(fault).only_on(data.join("turnstone.db-wal")).limit(Duration::from_secs(60));
    let run = plan.run(&ledger(data.path(), &["load", "2", "3", "20"])?)?.require_fired()?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success(), "the fault went unnoticed");
    assert!(said.contains("turnstone.db"), "it names the file: {said}");
    assert!(says.iter().any(|words| said.contains(words)), "{said}");
    check(data.path(), &acks(&run.acknowledged()))
}

#[test]
fn full_disk_is_reported_and_keeps_acknowledged_writes() -> Fallible {
    for nth in [3, 9, 20] {
        with_fault(
            Fault::new(Syscall::Pwrite).error(Errno::Enospc).when_from(nth),
            &["no space left"],
        )?;
    }
    Ok(())
}

#[test]
fn failed_fsync_poisons_store_and_keeps_acknowledged_writes() -> Fallible {
    for nth in [2, 5, 11] {
        let fault = Fault::new(Syscall::Fdatasync).and(Syscall::Fsync).error(Errno::Eio).when(nth);
        with_fault(fault, &["the next write checks and reopens it", "cannot open"])?;
    }
    Ok(())
}

/// The disk recovers: the process that met the error goes on by itself.
#[test]
fn store_reopens_by_itself_after_a_failed_fsync() -> Fallible {
    for nth in [4, 7, 13] {
        let data = TempDataDir::new()?;
        assert!(ledger(data.path(), &["load", "1", "2", "1"])?.output()?.status.success());
        let fault = Fault::new(Syscall::Fdatasync).and(Syscall::Fsync).error(Errno::Eio).when(nth);
        let plan = FaultPlan::new(fault).only_on(data.join("turnstone.db-wal"));
        let run = plan.run(&ledger(data.path(), &["retry", "20"])?)?.require_fired()?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{said}");
        let lines = run.acknowledged();
        assert_eq!(lines.iter().filter(|line| *line == "poisoned").count(), 1, "{lines:?}");
        assert_eq!(acks(&lines).len(), 20, "{lines:?}");
        assert!(!data.join("lock/poisoned").exists(), "the check has passed");
        check(data.path(), &acks(&lines))?;
    }
    Ok(())
}

/// The disk stays broken: every write says so, and the next process still finds all that was kept.
#[test]
fn store_stays_closed_for_writes_while_syncs_fail() -> Fallible {
    let data = TempDataDir::new()?;
    assert!(ledger(data.path(), &["load", "1", "2", "1"])?.output()?.status.success());
    let fault = Fault::new(Syscall::Fdatasync).and(Syscall::Fsync).error(Errno::Eio).when_from(4);
    let plan = FaultPlan::new(fault).only_on(data.join("turnstone.db-wal"));
    let run = plan.run(&ledger(data.path(), &["retry", "20"])?)?.require_fired()?;
    assert!(!run.status.success());
    let lines = run.acknowledged();
    assert!(lines.iter().filter(|line| *line == "poisoned").count() > 10, "{lines:?}");
    check(data.path(), &acks(&lines))
}

#[test]
fn failed_write_is_reported_and_keeps_acknowledged_writes() -> Fallible {
    for nth in [4, 13] {
        with_fault(Fault::new(Syscall::Pwrite).error(Errno::Eio).when(nth), &["I/O error"])?;
    }
    Ok(())
}

#[test]
fn truncated_wal_yields_consistent_older_state() -> Fallible {
    // What a lying disk may do; acknowledged writes are then beyond anybody's reach, but what is
    // left must be whole.
    let data = TempDataDir::new()?;
    let command = ledger(data.path(), &["load", "1", "3", "100000"])?;
    let victim = turnstone_testkit::crash::KillableProgram::start(&mut { command })?;
    let outcome = victim
        .kill_on(turnstone_testkit::crash::KillTrigger::Lines(120), Duration::from_secs(60))?;
    assert!(outcome.acknowledged.len() >= 120);
    let wal = fs::read(data.join("turnstone.db-wal"))?;
    assert!(wal.len() > 8192, "the log is still there");
    for cut in [wal.len() / 3, wal.len() / 2 + 7, wal.len() - 100] {
        let copy = TempDataDir::new()?;
        fs::create_dir_all(copy.join("blob"))?;
        fs::copy(data.join("turnstone.db"), copy.join("turnstone.db"))?;
        fs::write(copy.join("turnstone.db-wal"), &wal[..cut])?;
        check(copy.path(), &[])?;
    }
    Ok(())
}
