//! Several processes on one file: leases, fencing, wakes, recovery (R26, R27, R28, R45).

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::ledger::{Fallible, context, ledger, open};
use turnstone_core::id::SessionId;
use turnstone_core::model::SessionStatus;
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_core::turn::TurnState;
use turnstone_store::{DataLayout, LeaseTakeoverPolicy, Options, Store, StoreError};
use turnstone_testkit::crash::KillableProgram;
use turnstone_testkit::fixture::TempDataDir;

const LIMIT: Duration = Duration::from_secs(300);

/// A process that holds `session`, and a pipe to it: each line makes it write once.
fn holder(data: &TempDataDir, session: &str) -> Fallible<(KillableProgram, std::fs::File)> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = ledger(data.path(), &["hold", session])?;
    command.stdin(Stdio::from(reader));
    let mut victim = KillableProgram::start(&mut command)?;
    victim.wait_for_lines(3, LIMIT)?;
    assert_eq!(victim.acknowledged().last().map(String::as_str), Some("held"));
    Ok((victim, std::fs::File::from(std::os::fd::OwnedFd::from(writer))))
}

#[test]
fn lease_is_busy_while_holder_lives_and_free_after_death() -> Fallible {
    let data = TempDataDir::new()?;
    let id: SessionId = "ses_held".parse()?;
    let (victim, _pipe) = holder(&data, "ses_held")?;
    let (store, ctx) = (open(data.path())?, context()?);
    assert!(store.turn_recovery().interrupted.is_empty(), "its owner lives");
    assert!(matches!(
        store.leases().acquire(&ctx, &id, LeaseTakeoverPolicy::IfDead),
        Err(StoreError::Busy(_))
    ));
    // R27: a clock that jumps an hour either way changes nothing.
    for now in [EpochMillis(0), EpochMillis(ctx.now.0 + 3_600_000)] {
        let moved = ctx.clone().at_time(now);
        assert!(matches!(
            store.leases().acquire(&moved, &id, LeaseTakeoverPolicy::IfDead),
            Err(StoreError::Busy(_))
        ));
        assert!(store.recover_turns(&moved)?.interrupted.is_empty());
    }
    assert_eq!(store.read(&ctx, |r| r.sessions().status(&id))?, SessionStatus::Busy);
    victim.kill()?;
    let recovered = store.recover_turns(&ctx)?;
    assert_eq!(recovered.interrupted.len(), 1);
    assert!(store.recover_turns(&ctx)?.interrupted.is_empty(), "a second sweep finds nothing");
    let turns = store.read(&ctx, |r| r.turns().list(&id))?;
    assert_eq!(turns[0].state, TurnState::Interrupted);
    store.leases().acquire(&ctx, &id, LeaseTakeoverPolicy::IfDead)?;
    Ok(())
}

/// Proves R27.
#[test]
fn suspended_owner_is_fenced_after_takeover() -> Fallible {
    let data = TempDataDir::new()?;
    let id: SessionId = "ses_fence".parse()?;
    let (mut victim, mut pipe) = holder(&data, "ses_fence")?;
    pipe.write_all(b"write\n")?;
    victim.wait_for_lines(4, LIMIT)?;
    victim.suspend()?;
    let (store, ctx) = (open(data.path())?, context()?);
    // Stopped is not dead: only force takes the session over.
    assert!(matches!(
        store.leases().acquire(&ctx, &id, LeaseTakeoverPolicy::IfDead),
        Err(StoreError::Busy(_))
    ));
    let lease = store.leases().acquire(&ctx, &id, LeaseTakeoverPolicy::Force)?;
    let before = store.read(&ctx, |r| r.sessions().seq(&id))?;
    victim.resume()?;
    pipe.write_all(b"write\n")?;
    victim.wait_for_lines(5, LIMIT)?;
    assert_eq!(victim.acknowledged()[3..], ["wrote", "fenced"]);
    assert_eq!(store.read(&ctx, |r| r.sessions().seq(&id))?, before, "nothing was written");
    // The process that took it over has a turn to end first: until then the lease is needed.
    assert!(!store.leases().release(&ctx, &lease)?);
    victim.kill()?;
    Ok(())
}

#[test]
fn concurrent_recovery_ends_a_turn_once() -> Fallible {
    let data = TempDataDir::new()?;
    let id: SessionId = "ses_sweep".parse()?;
    let (victim, _pipe) = holder(&data, "ses_sweep")?;
    let stores = [open(data.path())?, open(data.path())?];
    victim.kill()?;
    let ctx = context()?;
    let ended: usize = std::thread::scope(|scope| {
        let sweepers: Vec<_> = stores
            .iter()
            .map(|store| scope.spawn(|| store.recover_turns(&ctx).map(|r| r.interrupted.len())))
            .collect();
        sweepers.into_iter().map(|t| t.join().expect("a sweeper panicked").expect("sweeps")).sum()
    });
    assert_eq!(ended, 1);
    let log = stores[0].read(&ctx, |r| r.log().stream_after(&id, Default::default(), 100))?;
    let ends = log.events.iter().filter(|e| e.kind.name() == "turn.ended").count();
    assert_eq!(ends, 1);
    Ok(())
}

/// Proves R26.
#[test]
fn commit_wakes_other_process_without_safety_tick() -> Fallible {
    let data = TempDataDir::new()?;
    drop(open(data.path())?);
    let mut reader =
        KillableProgram::start(&mut ledger(data.path(), &["tail", "300", "--no-tick"])?)?;
    reader.wait_for_lines(1, LIMIT)?;
    // Two writer processes at once.
    let first = KillableProgram::start(&mut ledger(data.path(), &["load", "1", "2", "6"])?)?;
    let second = KillableProgram::start(&mut ledger(data.path(), &["load", "2", "2", "6"])?)?;
    first.wait(LIMIT)?;
    second.wait(LIMIT)?;
    let outcome = reader.wait(LIMIT)?;
    let seen: Vec<i64> = outcome
        .acknowledged
        .iter()
        .filter_map(|line| line.strip_prefix("saw ")?.parse().ok())
        .collect();
    let expected: Vec<i64> = (1..=seen.len() as i64).collect();
    assert_eq!(seen, expected, "each event once, in order, no gap");
    assert!(seen.len() >= 300);
    Ok(())
}

#[test]
fn log_tail_has_no_gap_under_load() -> Fallible {
    let data = TempDataDir::new()?;
    drop(open(data.path())?);
    let mut options = Options::new(DataLayout::new(data.path()), EpochMillis(1));
    options.safety_tick = false;
    let store = Store::open(&options)?;
    let writer = KillableProgram::start(&mut ledger(data.path(), &["load", "3", "4", "15"])?)?;
    let ctx = context()?;
    // Readers that join at different moments, some in the middle of history.
    std::thread::scope(|scope| -> Fallible {
        let readers: Vec<_> = (0..4)
            .map(|n| {
                let (store, ctx) = (&store, &ctx);
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(30 * n));
                    let mut tail = store.tail_log(ctx, LogCursor(0));
                    let mut seen = Vec::new();
                    while seen.len() < 400 {
                        let page = tail.next(7, LIMIT).expect("reads");
                        assert!(!page.events.is_empty(), "stalled after {}", seen.len());
                        seen.extend(page.events.iter().map(|e| e.cursor.0));
                    }
                    seen
                })
            })
            .collect();
        for reader in readers {
            let seen = reader.join().map_err(|_| "a reader failed")?;
            let expected: Vec<i64> = (1..=seen.len() as i64).collect();
            assert_eq!(seen, expected);
        }
        Ok(())
    })?;
    writer.wait(LIMIT)?;
    Ok(())
}
