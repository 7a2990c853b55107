//! System calls that fail before the command runs, and a kernel without process descriptors.

use std::process::{Command, Output};

use turnstone_testkit::require;

use crate::case::{Case, Fallible, is_alive};

/// Runs the owner with a script while a system call fails in it, its supervisor or its launcher.
fn with_fault(case: &Case, fault: &str, script: &str) -> Fallible<Output> {
    let owner = case.owner(50, script)?;
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it breaks")]
    let mut command = Command::new(require::strace()?);
    let trace = case.at("trace").into_os_string();
    command.args(["-f", "-qq", "-o"]).arg(trace).args(["-e", &format!("inject={fault}")]);
    command.arg(owner.get_program()).args(owner.get_args()).current_dir(case.dir.path());
    Ok(command.output()?)
}

#[test]
fn a_failure_before_the_start_is_125_and_nothing_runs_r33() -> Fallible {
    for fault in [
        "setsid:error=EPERM",
        "socketpair:error=EMFILE",
        "pipe2:error=EMFILE:when=3+",
        "sendmsg:error=EIO",
        "recvmsg:error=EIO",
        "dup2,dup3:error=EBUSY",
        "prctl:error=EINVAL",
    ] {
        let case = Case::new()?;
        let output = with_fault(&case, fault, "echo ran > ran")?;
        let trace = fs_err::read_to_string(case.at("trace"))?;
        assert!(trace.contains("(INJECTED)"), "{fault} never happened");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{fault}: {said}");
        assert!(!case.at("ran").exists(), "{fault}: {said}");
    }
    Ok(())
}

#[test]
fn a_kernel_without_process_descriptors_is_enough_r32() -> Fallible {
    let case = Case::new()?;
    let script = "bash -c 'set -m; sleep 1000 & echo $! > job'; exit 4";
    let output = with_fault(&case, "pidfd_open:error=ENOSYS", script)?;
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!is_alive(&case.told("job")?));
    assert!(!case.recorded()?.is_alive()?);
    Ok(())
}
