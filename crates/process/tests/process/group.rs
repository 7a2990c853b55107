//! Groups found again by their identity, as recovery does after a crash.

use std::time::Duration;

use rustix::process::Signal;
use turnstone_process::{Ended, GroupId, Leftover};

use crate::case::{Case, Fallible, is_alive, signal, until};

const LONG: Duration = Duration::from_secs(300);

#[test]
fn recovery_ends_a_group_whose_owner_and_supervisor_were_killed_r32() -> Fallible {
    let case = Case::new()?;
    let script = "(trap '' TERM; sleep 1000 & echo $! > child; wait) & echo $$ > leader; wait";
    let mut owner = case.owner(60_000, script)?.spawn()?;
    let group = case.recorded()?;
    let child = case.told("child")?;
    // Held still, so that it can do nothing about its owner's death.
    let supervisor = group.session.to_string();
    signal(&supervisor, Signal::STOP)?;
    owner.kill()?;
    owner.wait()?;
    signal(&supervisor, Signal::KILL)?;
    until("the supervisor is gone", || !is_alive(&supervisor))?;

    // The command died with its supervisor; what it started is still there, and is found.
    assert!(is_alive(&child));
    assert!(group.is_alive()?);
    assert_eq!(group.end(Duration::from_millis(50))?, Ended::Killed);
    assert!(!is_alive(&child));
    assert_eq!(group.end(Duration::ZERO)?, Ended::Already);
    Ok(())
}

#[test]
fn a_stopped_supervisor_is_ended_too_r32() -> Fallible {
    let case = Case::new()?;
    let mut owner = case.owner(60_000, "echo $$ > leader; exec sleep 1000")?.spawn()?;
    let group = case.recorded()?;
    case.told("leader")?;
    signal(&group.session.to_string(), Signal::STOP)?;
    owner.kill()?;
    owner.wait()?;
    assert_eq!(group.end(LONG)?, Ended::Terminated);
    assert!(!group.is_alive()?);
    Ok(())
}

#[test]
fn a_recycled_number_is_never_hit_r32() -> Fallible {
    let case = Case::new()?;
    let mut program = case.script("echo $$ > leader; exec sleep 1000");
    program.leftover = Leftover::End;
    let running = case.prepare(&program)?.go()?;
    let leader = case.told("leader")?;
    let group = running.group().clone();

    // The same numbers with other start times: a group of the past.
    let past = GroupId {
        start_time: group.start_time - 1,
        session_start_time: group.session_start_time - 1,
        ..group.clone()
    };
    assert!(!past.is_alive()?);
    assert_eq!(past.end(Duration::ZERO)?, Ended::Already);
    let other_boot = GroupId { boot_id: "another".to_owned(), ..group.clone() };
    assert_eq!(other_boot.end(Duration::ZERO)?, Ended::Already);
    assert!(is_alive(&leader));
    assert!(group.is_alive()?);
    drop(running);
    assert!(group.wait(LONG)?);
    Ok(())
}

#[test]
fn an_identity_survives_being_stored_r32() -> Fallible {
    let case = Case::new()?;
    let running = case.start("exec sleep 1000")?;
    let text = serde_json::to_string(running.group())?;
    let again: GroupId = serde_json::from_str(&text)?;
    assert_eq!(&again, running.group());
    assert!(again.is_alive()?);
    again.end(LONG)?;
    Ok(())
}
