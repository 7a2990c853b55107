//! Owners that die, and what becomes of their commands.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use turnstone_process::{AttachError, OrphanPolicy, OutputLimits, OutputRecorder, ProcessGroupId};

use crate::process_fixture::{Fallible, ProcessFixture, attach, is_alive, signal, wait_until};

const LONG: Duration = Duration::from_secs(300);

/// Proves R32.
#[test]
fn killed_owner_ends_the_group() -> Fallible {
    let case = ProcessFixture::new()?;
    // A child, a grandchild left behind by a double fork, and a job in a group of its own.
    let script = "sleep 1000 & echo $! > child
        (sleep 1000 & echo $! > grandchild)
        bash -c 'set -m; sleep 1000 & echo $! > job'
        echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded_group()?;
    let pids = ["child", "grandchild", "job", "leader"].map(|name| case.wait_for_file(name));
    let pids: Vec<String> = pids.into_iter().collect::<Result<_, _>>()?;
    assert!(pids.iter().all(|pid| is_alive(pid)));
    assert_eq!(pids[3], group.pgid.to_string());

    owner.kill()?;
    assert_eq!(owner.wait()?.signal(), Some(9));

    assert!(group.wait(LONG)?);
    assert!(!pids.iter().any(|pid| is_alive(pid)));
    Ok(())
}

/// Proves R32.
#[test]
fn killed_owner_leaves_no_unrecorded_command() -> Fallible {
    for pause in 0..25 {
        let case = ProcessFixture::new()?;
        let script = "echo ran > ran; sleep 1000 & echo $! > child; wait";
        let mut owner = case.owner(60_000, script)?.spawn()?;
        // From before the supervisor is there until after the command runs, on any machine.
        std::thread::sleep(Duration::from_millis(pause * 3));
        owner.kill()?;
        owner.wait()?;
        let record = fs_err::read(case.at("group.json")).unwrap_or_default();
        // A record cut off half way: it was not told to go, and never is.
        if let Ok(group) = serde_json::from_slice::<ProcessGroupId>(&record) {
            assert!(group.wait(LONG)?, "after {pause}");
        }
        let ran = case.at("ran").exists();
        assert!(!ran || !record.is_empty(), "it ran unrecorded after {pause}");
        // The group has ended, so the file is what it will ever be: its writer may have been killed
        // before it wrote the number, or half way through it.
        let child = fs_err::read_to_string(case.at("child")).unwrap_or_default();
        if let Some(pid) = child.strip_suffix('\n') {
            assert!(!is_alive(pid), "a child is left after {pause}");
        }
    }
    Ok(())
}

/// Proves R32.
#[test]
fn process_ignoring_sigterm_is_killed() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "trap '' TERM HUP INT; echo $$ > leader; while :; do sleep 1000; done";
    let mut owner = case.owner(50, script)?.spawn()?;
    let group = case.recorded_group()?;
    case.wait_for_file("leader")?;
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    Ok(())
}

/// Proves R32.
#[test]
fn command_can_clean_up_within_grace_period() -> Fallible {
    let case = ProcessFixture::new()?;
    // Its output is a broken pipe by then: a complaint of the shell would end it first.
    let script = "exec 2> /dev/null; trap 'echo tidy > tidied; exit 0' TERM; echo $$ > leader
        while :; do sleep 0.05; done";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded_group()?;
    case.wait_for_file("leader")?;
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    assert_eq!(case.wait_for_file("tidied")?, "tidy");
    Ok(())
}

/// Proves R32.
#[test]
fn stopped_group_is_continued_and_ended() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "sleep 1000 & echo $! > child; echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded_group()?;
    for name in ["child", "leader"] {
        signal(&case.wait_for_file(name)?, Signal::STOP)?;
    }
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    Ok(())
}

/// Proves R33.
#[test]
fn owner_signal_is_forwarded_to_command() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "trap 'echo got > told; exit 9' INT; echo $$ > leader
        while :; do sleep 0.05; done";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    case.wait_for_file("leader")?;
    signal(&owner.id().to_string(), Signal::INT)?;
    assert_eq!(owner.wait()?.code(), Some(9));
    assert_eq!(case.wait_for_file("told")?, "got");
    Ok(())
}

/// Proves R33.
#[test]
fn ignored_signal_stays_ignored_in_command() -> Fallible {
    let case = ProcessFixture::new()?;
    let owner = case.owner(60_000, "kill -HUP $$; echo alive > told")?;
    let words = owner.get_args().map(|word| format!("'{}'", word.to_string_lossy()));
    let words: Vec<_> = words.collect();
    let program = owner.get_program().to_string_lossy();
    // The shell hands an ignored signal on to what it starts.
    let script = format!("trap '' HUP; {program} {} & kill -HUP $!; wait $!", words.join(" "));
    let (outcome, kept) = case.run(&script)?;
    assert_eq!(outcome.exit.code(), 0, "{}", kept.text().head);
    assert_eq!(case.wait_for_file("told")?, "alive");
    Ok(())
}

/// Proves R33.
#[test]
fn owner_blocked_on_reader_can_be_interrupted() -> Fallible {
    let case = ProcessFixture::new()?;
    let mut owner = case.owner(60_000, "echo $$ > leader; exec yes")?;
    // Held open and never read.
    let mut owner = owner.stdout(std::process::Stdio::piped()).spawn()?;
    let group = case.recorded_group()?;
    case.wait_for_file("leader")?;
    let output = owner.stdout.take().ok_or("no pipe")?;
    wait_until("the pipe is full", || {
        ioctl_fionread(&output).is_ok_and(|bytes| bytes >= 64 << 10)
    })?;
    let id = owner.id().to_string();
    signal(&id, Signal::INT)?;
    assert!(group.wait(LONG)?);
    // The command has ended; the owner still tries to pass on its last words.
    wait_until("the owner obeys again", || {
        signal(&id, Signal::INT).ok();
        matches!(owner.try_wait(), Ok(Some(_)))
    })?;
    let status = owner.wait()?;
    // By the second signal; or by itself, if the command was caught before it wrote more.
    assert!(status.signal() == Some(2) || status.code() == Some(130), "{status}");
    Ok(())
}

/// Proves R32.
#[test]
fn killed_supervisor_kills_the_command() -> Fallible {
    let case = ProcessFixture::new()?;
    let running = case.start("sleep 1000 & echo $! > child; echo $$ > leader; wait")?;
    let group = running.group().clone();
    let (child, leader) = (case.wait_for_file("child")?, case.wait_for_file("leader")?);

    signal(&group.session.to_string(), Signal::KILL)?;
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let error = attach(running, &mut recorder).unwrap_err();

    assert!(matches!(error, AttachError::SupervisorDied), "{error:?}");
    assert!(!group.is_alive()?);
    assert!(!is_alive(&child) && !is_alive(&leader));
    Ok(())
}

/// Proves R32.
#[test]
fn dropped_command_is_ended() -> Fallible {
    let case = ProcessFixture::new()?;
    let running = case.start("echo $$ > leader; exec sleep 1000")?;
    let group = running.group().clone();
    case.wait_for_file("leader")?;
    // A handle that is still held somewhere does not keep it.
    let control = running.control();
    drop(running);
    assert!(group.wait(LONG)?);
    assert!(control.end().is_err());
    Ok(())
}

/// Proves R27.
#[test]
fn control_ends_group_from_another_thread() -> Fallible {
    let case = ProcessFixture::new()?;
    let running = case.start("echo $$ > leader; sleep 1000 & wait")?;
    let control = running.control();
    case.wait_for_file("leader")?;
    control.end()?;
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.left), (143, 0));
    Ok(())
}

/// Proves R32.
#[test]
fn leftover_processes_follow_orphan_policy() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "sleep 1000 > /dev/null 2>&1 & echo $! > child";
    for (policy, left) in [(OrphanPolicy::End, 0), (OrphanPolicy::Leave, 1)] {
        let mut program = case.script(script);
        program.orphan_policy = policy;
        let running = case.prepare(&program)?.start()?;
        let group = running.group().clone();
        let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
        assert_eq!((outcome.exit.code(), outcome.left), (0, left), "{policy:?}");
        assert_eq!(is_alive(&case.wait_for_file("child")?), left == 1, "{policy:?}");
        group.end(LONG)?;
    }

    let mut program = case.script("(while [ ! -e free ]; do sleep 0.05; done; echo late > late) &");
    program.orphan_policy = OrphanPolicy::Wait;
    let running = case.prepare(&program)?.start()?;
    fs_err::write(case.at("free"), "")?;
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.left), (0, 0));
    assert_eq!(case.wait_for_file("late")?, "late");
    Ok(())
}

#[test]
fn setsid_program_escapes_the_group() -> Fallible {
    let case = ProcessFixture::new()?;
    let (outcome, _) =
        case.run("setsid sleep 1000 > /dev/null 2>&1 & echo $! > daemon; sleep 0.2")?;
    assert!(outcome.exit.is_success());
    // `setsid` forks only as a group leader, which it is not here: the number is the daemon's.
    let daemon = case.wait_for_file("daemon")?;
    wait_until("the daemon lives on", || is_alive(&daemon))?;
    signal(&daemon, Signal::KILL)
}
