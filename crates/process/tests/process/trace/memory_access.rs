//! Where the memory of processes may be read by their ancestors only (Yama), or not at all.

use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use turnstone_process::{OrphanPolicy, OutputLimits, OutputRecorder};
use turnstone_trace::{TraceGapReason, TraceUnavailable};

use crate::process_fixture::{Fallible, attach, example, signal, wait_until};
use crate::trace::lost_holders::find_holders;
use crate::trace::trace_fixture::TraceFixture;

/// Lists the processes above one, nearest first.
fn list_ancestors(pid: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = pid.to_owned();
    loop {
        let stat = fs_err::read_to_string(format!("/proc/{at}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        match parent.filter(|parent| !matches!(*parent, "0" | "1")) {
            Some(parent) => at = parent.to_owned(),
            None => return found,
        }
        found.push(at.clone());
    }
}

/// `kernel.yama.ptrace_scope` of 1 allows ancestors to read; orphans must stay below the holders, too.
#[test]
fn holders_are_ancestors_of_all_that_they_answer_for() -> Fallible {
    let case = TraceFixture::new()?;
    let wait = "while [ ! -e go ]; do sleep 0.01; done";
    let script = format!(
        "(setsid sh -c 'echo $$ > orphan; {wait}' &); echo $$ > pid; {wait}; while [ ! -s orphan ]; do sleep 0.01; done"
    );
    let mut command = case.traced("trace", case.process.script(&script));
    command.orphan_policy = OrphanPolicy::Leave;
    let running = case.start(&command)?;
    let (pid, orphan) = (case.process.wait_for_file("pid")?, case.process.wait_for_file("orphan")?);
    let holders = find_holders(&case)?;
    assert_eq!(holders.len(), 2);
    for process in [&pid, &orphan] {
        let above = list_ancestors(process);
        assert!(holders.iter().all(|holder| above.contains(holder)), "{holders:?}: {above:?}");
    }
    // Of two holders of which one dies, the other one is still above all.
    signal(&holders[0], Signal::KILL)?;
    wait_until("the holder is replaced", || {
        find_holders(&case).is_ok_and(|now| now.len() == 2 && !now.contains(&holders[0]))
    })?;
    for process in [&pid, &orphan] {
        let above = list_ancestors(process);
        assert!(above.contains(&holders[1]), "{holders:?}: {above:?}");
    }
    fs_err::write(case.dir.join("go"), "")?;
    attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    wait_until("the tree has ended", || case.read("trace").is_ok_and(|log| log.ended))
}

/// Runs a traced script below strace, which injects faults into all processes.
pub(crate) fn run_with_faults(
    case: &TraceFixture,
    faults: &[&str],
    script: &str,
) -> Fallible<Output> {
    let calls: Vec<&str> =
        faults.iter().filter_map(|fault| Some(fault.split_once(':')?.0)).collect();
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it breaks")]
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "calls", "-e", &format!("trace={}", calls.join(","))]);
    command.args(faults.iter().map(|fault| format!("--inject={fault}")));
    command
        .arg(example()?)
        .arg("trace")
        .arg(case.log_path("trace"))
        .args(["1000", "group", "/bin/sh", "-c", script]);
    Ok(command.current_dir(&case.dir).stdin(Stdio::null()).output()?)
}

#[test]
fn command_whose_memory_may_not_be_read_runs_untraced() -> Fallible {
    let case = TraceFixture::new()?;
    let fault = "process_vm_readv:error=EPERM";
    let output = run_with_faults(&case, &[fault], "echo x > inside; exit 3")?;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&TraceUnavailable::MemoryNotReadable.to_string()), "{errors}");
    assert!(case.dir.join("inside").exists());
    Ok(())
}

/// As after the replacement of both holders under Yama: their successors are no ancestors.
#[test]
fn memory_that_becomes_unreadable_is_a_gap() -> Fallible {
    let case = TraceFixture::new()?;
    let fault = "process_vm_readv:error=EPERM:when=9+";
    let script = "mkdir d; for i in $(seq 20); do echo x > d/f$i || exit 9; done";
    let output = run_with_faults(&case, &[fault], script)?;
    assert!(output.status.success(), "{output:?}");
    let log = case.read("trace")?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::UnreadableMemory]);
    assert_eq!(fs_err::read_dir(case.dir.join("d"))?.count(), 20);
    Ok(())
}
