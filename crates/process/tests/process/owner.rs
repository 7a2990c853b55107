//! Owners that die, and what becomes of their commands.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use turnstone_process::{AttendError, GroupId, Keeper, Leftover, Limits};

use crate::case::{Case, Fallible, attend, is_alive, signal, until};

const LONG: Duration = Duration::from_secs(300);

#[test]
fn the_group_ends_when_its_owner_is_killed_r32() -> Fallible {
    let case = Case::new()?;
    // A child, a grandchild left behind by a double fork, and a job in a group of its own.
    let script = "sleep 1000 & echo $! > child
        (sleep 1000 & echo $! > grandchild)
        bash -c 'set -m; sleep 1000 & echo $! > job'
        echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded()?;
    let pids = ["child", "grandchild", "job", "leader"].map(|name| case.told(name));
    let pids: Vec<String> = pids.into_iter().collect::<Result<_, _>>()?;
    assert!(pids.iter().all(|pid| is_alive(pid)));
    assert_eq!(pids[3], group.pgid.to_string());

    owner.kill()?;
    assert_eq!(owner.wait()?.signal(), Some(9));

    assert!(group.wait(LONG)?);
    assert!(!pids.iter().any(|pid| is_alive(pid)));
    Ok(())
}

#[test]
fn whenever_the_owner_is_killed_nothing_unrecorded_has_run_r32() -> Fallible {
    for pause in 0..25 {
        let case = Case::new()?;
        let script = "echo ran > ran; sleep 1000 & echo $! > child; wait";
        let mut owner = case.owner(60_000, script)?.spawn()?;
        // From before the supervisor is there until after the command runs, on any machine.
        std::thread::sleep(Duration::from_millis(pause * 3));
        owner.kill()?;
        owner.wait()?;
        let record = fs_err::read(case.at("group.json")).unwrap_or_default();
        // A record cut off half way: it was not told to go, and never is.
        if let Ok(group) = serde_json::from_slice::<GroupId>(&record) {
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

#[test]
fn who_ignores_the_end_is_killed_r32() -> Fallible {
    let case = Case::new()?;
    let script = "trap '' TERM HUP INT; echo $$ > leader; while :; do sleep 1000; done";
    let mut owner = case.owner(50, script)?.spawn()?;
    let group = case.recorded()?;
    case.told("leader")?;
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    Ok(())
}

#[test]
fn a_command_may_tidy_up_within_its_grace_period_r32() -> Fallible {
    let case = Case::new()?;
    // Its output is a broken pipe by then: a complaint of the shell would end it first.
    let script = "exec 2> /dev/null; trap 'echo tidy > tidied; exit 0' TERM; echo $$ > leader
        while :; do sleep 0.05; done";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded()?;
    case.told("leader")?;
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    assert_eq!(case.told("tidied")?, "tidy");
    Ok(())
}

#[test]
fn a_stopped_group_is_woken_to_be_ended_r32() -> Fallible {
    let case = Case::new()?;
    let script = "sleep 1000 & echo $! > child; echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded()?;
    for name in ["child", "leader"] {
        signal(&case.told(name)?, Signal::STOP)?;
    }
    owner.kill()?;
    owner.wait()?;
    assert!(group.wait(LONG)?);
    Ok(())
}

#[test]
fn a_signal_to_the_owner_reaches_the_command_r33() -> Fallible {
    let case = Case::new()?;
    let script = "trap 'echo got > told; exit 9' INT; echo $$ > leader
        while :; do sleep 0.05; done";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    case.told("leader")?;
    signal(&owner.id().to_string(), Signal::INT)?;
    assert_eq!(owner.wait()?.code(), Some(9));
    assert_eq!(case.told("told")?, "got");
    Ok(())
}

#[test]
fn a_signal_ignored_above_stays_ignored_below_r33() -> Fallible {
    let case = Case::new()?;
    let owner = case.owner(60_000, "kill -HUP $$; echo alive > told")?;
    let words = owner.get_args().map(|word| format!("'{}'", word.to_string_lossy()));
    let words: Vec<_> = words.collect();
    let program = owner.get_program().to_string_lossy();
    // The shell hands an ignored signal on to what it starts.
    let script = format!("trap '' HUP; {program} {} & kill -HUP $!; wait $!", words.join(" "));
    let (outcome, kept) = case.run(&script)?;
    assert_eq!(outcome.exit.code(), 0, "{}", kept.text().head);
    assert_eq!(case.told("told")?, "alive");
    Ok(())
}

#[test]
fn a_reader_that_never_reads_can_be_left_r33() -> Fallible {
    let case = Case::new()?;
    let mut owner = case.owner(60_000, "echo $$ > leader; exec yes")?;
    // Held open and never read.
    let mut owner = owner.stdout(std::process::Stdio::piped()).spawn()?;
    let group = case.recorded()?;
    case.told("leader")?;
    let output = owner.stdout.take().ok_or("no pipe")?;
    until("the pipe is full", || ioctl_fionread(&output).is_ok_and(|bytes| bytes >= 64 << 10))?;
    let id = owner.id().to_string();
    signal(&id, Signal::INT)?;
    assert!(group.wait(LONG)?);
    // The command has ended; the owner still tries to pass on its last words.
    until("the owner obeys again", || {
        signal(&id, Signal::INT).ok();
        matches!(owner.try_wait(), Ok(Some(_)))
    })?;
    let status = owner.wait()?;
    // By the second signal; or by itself, if the command was caught before it wrote more.
    assert!(status.signal() == Some(2) || status.code() == Some(130), "{status}");
    Ok(())
}

#[test]
fn a_supervisor_that_is_killed_takes_the_command_with_it_r32() -> Fallible {
    let case = Case::new()?;
    let running = case.start("sleep 1000 & echo $! > child; echo $$ > leader; wait")?;
    let group = running.group().clone();
    let (child, leader) = (case.told("child")?, case.told("leader")?);

    signal(&group.session.to_string(), Signal::KILL)?;
    let mut keeper = Keeper::new(Limits::default(), None);
    let error = attend(running, &mut keeper).unwrap_err();

    assert!(matches!(error, AttendError::SupervisorDied), "{error:?}");
    assert!(!group.is_alive()?);
    assert!(!is_alive(&child) && !is_alive(&leader));
    Ok(())
}

#[test]
fn a_dropped_command_is_ended_r32() -> Fallible {
    let case = Case::new()?;
    let running = case.start("echo $$ > leader; exec sleep 1000")?;
    let group = running.group().clone();
    case.told("leader")?;
    // A handle that is still held somewhere does not keep it.
    let control = running.control();
    drop(running);
    assert!(group.wait(LONG)?);
    assert!(control.end().is_err());
    Ok(())
}

#[test]
fn a_fenced_owner_ends_its_group_from_another_thread_r27() -> Fallible {
    let case = Case::new()?;
    let running = case.start("echo $$ > leader; sleep 1000 & wait")?;
    let control = running.control();
    case.told("leader")?;
    control.end()?;
    let outcome = attend(running, &mut Keeper::new(Limits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.left), (143, 0));
    Ok(())
}

#[test]
fn what_a_command_leaves_behind_follows_the_policy_r32() -> Fallible {
    let case = Case::new()?;
    let script = "sleep 1000 > /dev/null 2>&1 & echo $! > child";
    for (policy, left) in [(Leftover::End, 0), (Leftover::Leave, 1)] {
        let mut program = case.script(script);
        program.leftover = policy;
        let running = case.prepare(&program)?.go()?;
        let group = running.group().clone();
        let outcome = attend(running, &mut Keeper::new(Limits::default(), None))?;
        assert_eq!((outcome.exit.code(), outcome.left), (0, left), "{policy:?}");
        assert_eq!(is_alive(&case.told("child")?), left == 1, "{policy:?}");
        group.end(LONG)?;
    }

    let mut program = case.script("(while [ ! -e free ]; do sleep 0.05; done; echo late > late) &");
    program.leftover = Leftover::Wait;
    let running = case.prepare(&program)?.go()?;
    fs_err::write(case.at("free"), "")?;
    let outcome = attend(running, &mut Keeper::new(Limits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.left), (0, 0));
    assert_eq!(case.told("late")?, "late");
    Ok(())
}

#[test]
fn a_program_that_makes_a_session_of_its_own_is_not_covered() -> Fallible {
    let case = Case::new()?;
    let (outcome, _) =
        case.run("setsid sleep 1000 > /dev/null 2>&1 & echo $! > daemon; sleep 0.2")?;
    assert!(outcome.exit.is_success());
    // `setsid` forks only as a group leader, which it is not here: the number is the daemon's.
    let daemon = case.told("daemon")?;
    until("the daemon lives on", || is_alive(&daemon))?;
    signal(&daemon, Signal::KILL)
}
