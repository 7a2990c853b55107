//! Groups found again by their identity, as recovery does after a crash.

use std::time::Duration;

use rustix::process::Signal;
use turnstone_process::{GroupEndOutcome, OrphanPolicy, ProcessGroupId};

use crate::process_fixture::{Fallible, ProcessFixture, is_alive, signal, wait_until};

const LONG: Duration = Duration::from_secs(300);

/// Proves R32.
#[test]
fn group_of_killed_owner_and_supervisor_can_be_ended() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "(trap '' TERM; sleep 1000 & echo $! > child; wait) & echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded_group()?;
    let child = case.wait_for_file("child")?;
    // Held still, so that it can do nothing about its owner's death.
    let supervisor = group.session.to_string();
    signal(&supervisor, Signal::STOP)?;
    owner.kill()?;
    owner.wait()?;
    signal(&supervisor, Signal::KILL)?;
    wait_until("the supervisor is gone", || !is_alive(&supervisor))?;

    // The command died with its supervisor; what it started is still there, and is found.
    assert!(is_alive(&child));
    assert!(group.is_alive()?);
    assert_eq!(group.end(Duration::from_millis(50))?, GroupEndOutcome::Killed);
    assert!(!is_alive(&child));
    assert_eq!(group.end(Duration::ZERO)?, GroupEndOutcome::Already);
    Ok(())
}

/// Proves R32.
#[test]
fn stopped_supervisor_is_ended() -> Fallible {
    let case = ProcessFixture::new()?;
    let mut owner = case.owner(60_000, "echo $$ > leader; exec sleep 1000")?.spawn()?;
    let group = case.recorded_group()?;
    case.wait_for_file("leader")?;
    signal(&group.session.to_string(), Signal::STOP)?;
    owner.kill()?;
    owner.wait()?;
    assert_eq!(group.end(LONG)?, GroupEndOutcome::Terminated);
    assert!(!group.is_alive()?);
    Ok(())
}

/// Proves R32.
#[test]
fn recycled_pid_is_never_signalled() -> Fallible {
    let case = ProcessFixture::new()?;
    let mut program = case.script("echo $$ > leader; exec sleep 1000");
    program.orphan_policy = OrphanPolicy::End;
    let running = case.prepare(&program)?.start()?;
    let leader = case.wait_for_file("leader")?;
    let group = running.group().clone();

    // The same numbers with other start times: a group of the past.
    let past = ProcessGroupId {
        start_time: group.start_time - 1,
        session_start_time: group.session_start_time - 1,
        ..group.clone()
    };
    assert!(!past.is_alive()?);
    assert_eq!(past.end(Duration::ZERO)?, GroupEndOutcome::Already);
    let other_boot = ProcessGroupId { boot_id: "another".to_owned(), ..group.clone() };
    assert_eq!(other_boot.end(Duration::ZERO)?, GroupEndOutcome::Already);
    assert!(is_alive(&leader));
    assert!(group.is_alive()?);
    drop(running);
    assert!(group.wait(LONG)?);
    Ok(())
}

/// Proves R32.
#[test]
fn group_id_round_trips() -> Fallible {
    let case = ProcessFixture::new()?;
    let running = case.start("exec sleep 1000")?;
    let text = serde_json::to_string(running.group())?;
    let again: ProcessGroupId = serde_json::from_str(&text)?;
    assert_eq!(&again, running.group());
    assert!(again.is_alive()?);
    again.end(LONG)?;
    Ok(())
}
