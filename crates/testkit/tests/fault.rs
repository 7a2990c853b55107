//! Injected faults reach the program, and a fault that does not is noticed.

use std::{error::Error, process::Command};

use turnstone_testkit::{
    fault::{Errno, Fault, FaultError, FaultPlan, Syscall},
    fixture::TempDataDir,
};

type TestResult = Result<(), Box<dyn Error>>;

fn probe_command(data: &TempDataDir, steps: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg(data.path()).args(steps);
    command
}

#[test]
fn injected_fsync_error_reaches_the_program() -> TestResult {
    let data = TempDataDir::new()?;
    let fault = Fault::new(Syscall::Fsync).error(Errno::Eio).when(3);
    let steps = ["fsync:a", "ack:1", "fsync:a", "ack:2", "fsync:a", "ack:3"];
    let run = FaultPlan::new(fault).run(&probe_command(&data, &steps))?.require_fired()?;
    assert_eq!(run.acknowledged(), ["1", "2"]);
    assert_eq!(run.status.code(), Some(1));
    assert_eq!((run.injection_count(), run.injections[0].call.as_str()), (1, "fsync"));
    let stderr = String::from_utf8(run.stderr)?;
    assert!(stderr.contains("Input/output error") || stderr.contains("os error 5"), "{stderr}");
    Ok(())
}

#[test]
fn enospc_hits_every_write_from_the_nth_on() -> TestResult {
    let data = TempDataDir::new()?;
    let fault = Fault::new(Syscall::Pwrite).error(Errno::Enospc).when_from(2);
    let plan = FaultPlan::new(fault);
    let run =
        plan.run(&probe_command(&data, &["write:a:0:one", "write:a:3:two"]))?.require_fired()?;
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(fs_err::read_to_string(data.join("a"))?, "one");
    Ok(())
}

#[test]
fn fault_can_be_limited_to_one_path() -> TestResult {
    let data = TempDataDir::new()?;
    let plan = FaultPlan::new(Fault::new(Syscall::Pwrite)).only_on(data.join("b"));
    let steps = ["write:a:0:one", "ack:a", "write:b:0:two", "ack:b"];
    let run = plan.run(&probe_command(&data, &steps))?.require_fired()?;
    assert_eq!(run.acknowledged(), ["a"]);
    assert_eq!(run.injection_count(), 1);
    Ok(())
}

#[test]
fn fault_that_never_fires_is_an_error() -> TestResult {
    let data = TempDataDir::new()?;
    let plan = FaultPlan::new(Fault::new(Syscall::Fsync).when(9));
    let run = plan.run(&probe_command(&data, &["fsync:a", "ack:1"]))?;
    assert_eq!((run.injection_count(), run.acknowledged()), (0, vec!["1".to_owned()]));
    assert!(matches!(run.require_fired(), Err(FaultError::NeverFired { .. })));
    Ok(())
}

#[test]
fn stubbed_fsync_reports_success() -> TestResult {
    let data = TempDataDir::new()?;
    let steps = ["fsync:a", "fdatasync:a", "syncdir:.", "ack:1"];
    let run = FaultPlan::stub_fsync().run(&probe_command(&data, &steps))?.require_fired()?;
    assert_eq!((run.injection_count(), run.acknowledged()), (3, vec!["1".to_owned()]));
    assert!(run.status.success());
    Ok(())
}

#[test]
fn faults_are_counted_per_thread() -> TestResult {
    let data = TempDataDir::new()?;
    let plan = FaultPlan::new(Fault::new(Syscall::Fdatasync).error(Errno::Eio).when(5));
    let run = plan.run(&probe_command(&data, &["threads:3:10"]))?.require_fired()?;
    assert_eq!(run.injection_count(), 3, "strace counts per thread");
    assert_eq!(run.acknowledged().len(), 12);
    Ok(())
}
