//! System calls that fail before the command runs, and a kernel without process descriptors.

use std::process::{Command, Output};

use turnstone_testkit::required_tools;

use crate::process_fixture::{Fallible, ProcessFixture, is_alive};

/// Runs the owner with a script while a system call fails in it, its supervisor or its launcher.
fn with_fault(case: &ProcessFixture, fault: &str, script: &str) -> Fallible<Output> {
    let owner = case.owner(50, script)?;
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it breaks")]
    let mut command = Command::new(required_tools::find_strace()?);
    let trace = case.at("trace").into_os_string();
    command.args(["-f", "-qq", "-o"]).arg(trace).args(["-e", &format!("inject={fault}")]);
    command.arg(owner.get_program()).args(owner.get_args()).current_dir(case.dir.path());
    Ok(command.output()?)
}

/// Proves R33.
#[test]
fn failure_before_start_exits_125_and_runs_nothing() -> Fallible {
    for fault in [
        "setsid:error=EPERM",
        "socketpair:error=EMFILE",
        "pipe2:error=EMFILE:when=3+",
        "sendmsg:error=EIO",
        "recvmsg:error=EIO",
        "dup2,dup3:error=EBUSY",
        "prctl:error=EINVAL",
    ] {
        let case = ProcessFixture::new()?;
        let output = with_fault(&case, fault, "echo ran > ran")?;
        let trace = fs_err::read_to_string(case.at("trace"))?;
        assert!(trace.contains("(INJECTED)"), "{fault} never happened");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{fault}: {said}");
        assert!(!case.at("ran").exists(), "{fault}: {said}");
    }
    Ok(())
}

/// Proves R32.
#[test]
fn works_without_pidfd_support() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "bash -c 'set -m; sleep 1000 & echo $! > job'; exit 4";
    let output = with_fault(&case, "pidfd_open:error=ENOSYS", script)?;
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!is_alive(&case.wait_for_file("job")?));
    assert!(!case.recorded_group()?.is_alive()?);
    Ok(())
}
