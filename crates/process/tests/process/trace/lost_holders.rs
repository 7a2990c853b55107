//! Holders that are killed: the tree goes on, and nothing that it does is missing.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use turnstone_process::{OutputLimits, OutputRecorder};
use turnstone_trace::{TraceGapReason, TraceLog};

use crate::process_fixture::{Fallible, attach, example, signal, wait_until};
use crate::trace::memory_access::run_with_faults;
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// The processes that answer for a command: they have its log open.
pub(crate) fn find_holders(case: &TraceFixture) -> Fallible<Vec<String>> {
    let log = case.log_path("trace");
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc")? {
        let process = entry?.path();
        let name = fs_err::read_to_string(process.join("comm")).unwrap_or_default();
        if name.trim() != "turnstone-trace" {
            continue;
        }
        let Ok(files) = fs_err::read_dir(process.join("fd")) else { continue };
        let links = files.filter_map(|file| fs_err::read_link(file.ok()?.path()).ok());
        if links.into_iter().any(|link| link == log) {
            found.extend(process.file_name().map(|pid| pid.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}

/// Writes files, the twentieth again and again until it may go on.
const WRITER: &str = "for i in $(seq 300); do echo x > f$i; [ $i = 20 ] && { echo go > ready; \
    while [ ! -e killed ]; do echo x > f20; done; }; done; true";

fn assert_all_written(case: &TraceFixture, log: &TraceLog) {
    let lines = case.lines(log);
    for number in 1..=300 {
        assert!(lines.contains(&format!("Create f{number}")), "f{number} is missing");
    }
}

#[test]
fn death_of_one_holder_is_not_noticed() -> Fallible {
    for victim in [0, 1] {
        let case = TraceFixture::new()?;
        let running = case.start(&case.traced("trace", case.process.script(WRITER)))?;
        case.process.wait_for_file("ready")?;
        let holders = find_holders(&case)?;
        assert_eq!(holders.len(), 2);
        signal(&holders[victim], Signal::KILL)?;
        fs_err::write(case.dir.join("killed"), "")?;
        let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
        assert_eq!((outcome.exit.code(), outcome.is_trace_lost), (0, false));
        let log = case.read("trace")?;
        assert_complete(&log);
        assert_all_written(&case, &log);
    }
    Ok(())
}

#[test]
fn signals_that_end_programs_do_not_end_holders() -> Fallible {
    let case = TraceFixture::new()?;
    let script = "echo go > ready; while [ ! -e go ]; do sleep 0.01; done; echo x > after";
    let running = case.start(&case.traced("trace", case.process.script(script)))?;
    case.process.wait_for_file("ready")?;
    let holders = find_holders(&case)?;
    for holder in &holders {
        for number in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::TSTP] {
            signal(holder, number)?;
        }
    }
    fs_err::write(case.dir.join("go"), "")?;
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!(outcome.exit.code(), 0);
    assert_eq!(case.lines(&case.read("trace")?), ["Create ready", "Create after"]);
    Ok(())
}

#[test]
fn holders_that_die_again_and_again_are_replaced() -> Fallible {
    let case = TraceFixture::new()?;
    let script =
        "echo go > ready; i=0; while [ ! -e stop ]; do i=$((i+1)); echo x > f; done; echo x > end";
    let running = case.start(&case.traced("trace", case.process.script(script)))?;
    case.process.wait_for_file("ready")?;
    for round in 0..12 {
        let holders = find_holders(&case)?;
        assert_eq!(holders.len(), 2, "round {round}");
        let victim = &holders[round % 2];
        signal(victim, Signal::KILL)?;
        wait_until("the holder is replaced", || {
            find_holders(&case).is_ok_and(|now| now.len() == 2 && !now.contains(victim))
        })?;
    }
    fs_err::write(case.dir.join("stop"), "")?;
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.is_trace_lost), (0, false));
    let log = case.read("trace")?;
    assert_complete(&log);
    assert!(case.lines(&log).contains(&"Create end".to_owned()));
    Ok(())
}

#[test]
fn loss_of_all_holders_ends_the_command_and_is_reported() -> Fallible {
    let case = TraceFixture::new()?;
    let running = case.start(
        &case.traced("trace", case.process.script("echo go > ready; while :; do sleep 0.01; done")),
    )?;
    case.process.wait_for_file("ready")?;
    let holders = find_holders(&case)?;
    // Stopped first: neither can replace the other.
    for holder in &holders {
        signal(holder, Signal::STOP)?;
    }
    for holder in &holders {
        signal(holder, Signal::KILL)?;
    }
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert!(outcome.is_trace_lost);
    let log = case.read("trace")?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::HoldersLost]);
    Ok(())
}

/// Every holder is killed at its fourth call of this kind, and so is each that takes over.
#[test]
fn holder_killed_at_any_of_its_calls_loses_nothing() -> Fallible {
    for call in ["process_vm_readv", "openat2", "statx", "readlinkat", "pwrite64", "ioctl", "ppoll"]
    {
        let case = TraceFixture::new()?;
        let script = "mkdir d; for i in $(seq 40); do echo x > d/f$i || exit 9; done";
        #[expect(clippy::disallowed_methods, reason = "a test starts the program it kills")]
        let mut command = Command::new("strace");
        command
            .args(["-f", "-o", "calls", "-e", &format!("trace={call}"), "-e"])
            .arg(format!("inject={call}:signal=SIGKILL:when={}", first_kill(call)))
            .arg(example()?)
            .arg("trace")
            .arg(case.log_path("trace"))
            .args(["1000", "group", "/bin/sh", "-c", script]);
        let output = command.current_dir(&case.dir).stdin(Stdio::null()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{call}: {:?} {errors}", output.status);
        let calls = fs_err::read_to_string(case.dir.join("calls"))?;
        let kills = calls.matches("killed by SIGKILL").count();
        assert!(kills >= 2, "{call}: {kills} kills");
        let log = case.read("trace")?;
        assert_complete(&log);
        let lines = case.lines(&log);
        for number in 1..=40 {
            assert!(lines.contains(&format!("Create d/f{number}")), "{call}: f{number}");
        }
        assert!(log.ended || log.remaining.is_empty(), "{call}");
    }
    Ok(())
}

/// Late enough that no other process of the test makes so many calls of the kind.
fn first_kill(call: &str) -> u32 {
    match call {
        "statx" => 30,
        "ppoll" => 20,
        "ioctl" => 50,
        "openat2" | "readlinkat" => 20,
        _ => 9,
    }
}

/// The file system is served by a process of the tree, which waits for the tracer that waits for it.
#[test]
fn file_system_of_the_tree_does_not_stop_the_tree() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("serve.py"), include_str!("fuse_server.py"))?;
    let log = case.run("unshare --user --map-root-user --mount python3 -B serve.py")?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::UnresolvedPath]);
    assert!(case.dir.join("written").exists());
    assert!(log.ended);
    Ok(())
}

/// Owner, supervisor, launcher and the processes of the command are all killed at their N-th call of a kind. Holders make
/// none of these calls after the start, or they would be killed again and again.
///
/// strace ends once all of them have ended: none is left stopped or waiting.
#[test]
fn processes_killed_at_any_of_their_calls_leave_none_behind() -> Fallible {
    let script = "mkdir d; for i in 1 2 3 4 5; do echo x > d/f$i; mv d/f$i d/g$i; done; true";
    let mut kills = 0;
    for call in ["recvmsg", "sendmsg", "wait4", "execve", "renameat2"] {
        for number in 1..=3 {
            let case = TraceFixture::new()?;
            let fault = format!("{call}:signal=SIGKILL:when={number}");
            run_with_faults(&case, &[&fault], script)?;
            let calls = fs_err::read_to_string(case.dir.join("calls"))?;
            kills += calls.matches("killed by SIGKILL").count();
            let Ok(log) = case.read("trace") else {
                assert!(!case.dir.join("d").exists(), "{fault}: the command ran without its trace");
                continue;
            };
            assert!(
                log.hiding_gaps().all(|gap| gap.reason == TraceGapReason::HoldersLost),
                "{fault}"
            );
            let lines = case.lines(&log);
            for entry in fs_err::read_dir(case.dir.join("d")).into_iter().flatten() {
                let name = entry?.file_name().to_string_lossy().into_owned();
                let is_touched = lines.iter().any(|line| line.contains(&format!(" d/{name}")));
                assert!(is_touched, "{fault}: {name} was made without a touch: {lines:?}");
            }
        }
    }
    assert!(kills > 10, "{kills} processes were killed");
    Ok(())
}

/// A primary without a standby answers as before, as long as no process can be started.
#[test]
fn tree_goes_on_when_no_holder_can_be_started() -> Fallible {
    let case = TraceFixture::new()?;
    let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo x > f$i || exit 9; done";
    // Each holder has made one fork at the start. The primary dies in the middle.
    let faults = ["clone:error=EAGAIN:when=2+", "pwrite64:signal=SIGKILL:when=30"];
    let output = run_with_faults(&case, &faults, script)?;
    assert!(output.status.success(), "{output:?}");
    let calls = fs_err::read_to_string(case.dir.join("calls"))?;
    assert_eq!(calls.matches("killed by SIGKILL").count(), 1, "{calls}");
    assert!(calls.contains("EAGAIN"), "{calls}");
    let log = case.read("trace")?;
    assert_complete(&log);
    assert_eq!(case.lines(&log).len(), 40);
    Ok(())
}
