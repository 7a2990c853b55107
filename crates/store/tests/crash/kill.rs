//! Killed at random and at named points: nothing acknowledged is lost, nothing is stuck.

use std::time::Duration;

use crate::ledger::{Fallible, acks, check, ledger};
use turnstone_testkit::crash::{KillTrigger, KillableProgram, run_until_failpoint};
use turnstone_testkit::fixture::{SeededRng, TempDataDir};
use turnstone_testkit::test_rounds;

const LIMIT: Duration = Duration::from_secs(300);

/// Kills one writer after the other on the same file.
fn kill_repeatedly(seed: u64, kills: u64) -> Fallible {
    let data = TempDataDir::new()?;
    let mut rng = SeededRng::new(seed);
    let mut all = Vec::new();
    for round in 0..test_rounds::choose_rounds(seed, kills) {
        let run = (seed * 1000 + round).to_string();
        let victim =
            KillableProgram::start(&mut ledger(data.path(), &["load", &run, "4", "100000"])?)?;
        let outcome =
            victim.kill_on(KillTrigger::random(&mut rng, 60, Duration::from_millis(150)), LIMIT)?;
        assert!(outcome.death.is_kill_or_abort(), "{outcome:?}");
        all.extend(acks(&outcome.acknowledged));
        check(data.path(), &all).map_err(|e| format!("seed {seed}, round {round}: {e}"))?;
    }
    assert!(!all.is_empty(), "no writer of seed {seed} came to acknowledge anything");
    Ok(())
}

macro_rules! rows_of_kills {
    ($($name:ident $seed:literal)*) => {$(
        #[test]
        fn $name() -> Fallible {
            kill_repeatedly($seed, 24)
        }
    )*};
}

// Ten files, 24 kills each.
rows_of_kills! {
    killed_at_random_nothing_acknowledged_is_lost_seed_1 1
    killed_at_random_nothing_acknowledged_is_lost_seed_2 2
    killed_at_random_nothing_acknowledged_is_lost_seed_3 3
    killed_at_random_nothing_acknowledged_is_lost_seed_4 4
    killed_at_random_nothing_acknowledged_is_lost_seed_5 5
    killed_at_random_nothing_acknowledged_is_lost_seed_6 6
    killed_at_random_nothing_acknowledged_is_lost_seed_7 7
    killed_at_random_nothing_acknowledged_is_lost_seed_8 8
    killed_at_random_nothing_acknowledged_is_lost_seed_9 9
    killed_at_random_nothing_acknowledged_is_lost_seed_10 10
}

/// Another 40 deaths, each at a point with a name.
#[test]
fn kill_at_each_failpoint_keeps_acknowledged_writes() -> Fallible {
    let points = [
        "store::before_begin",
        "store::before_commit",
        "store::after_commit",
        "store::after_answer",
    ];
    for point in points {
        let data = TempDataDir::new()?;
        let mut all = Vec::new();
        for after in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
            let run = after.to_string();
            let mut command = ledger(data.path(), &["load", &run, "4", "100000"])?;
            let outcome =
                run_until_failpoint(&mut command, &format!("{point}={after}*off->panic"), LIMIT)?;
            all.extend(acks(&outcome.acknowledged));
            check(data.path(), &all).map_err(|e| format!("{point} after {after}: {e}"))?;
        }
        assert!(!all.is_empty(), "{point}");
    }
    Ok(())
}

/// One more death after each of the first steps of a purge; whatever is left looks sound.
#[test]
fn interrupted_purge_is_finished_by_next_process() -> Fallible {
    for after in 0..14 {
        let data = TempDataDir::new()?;
        let mut command = ledger(data.path(), &["load", "7", "4", "5"])?;
        assert!(command.output()?.status.success());
        let mut command = ledger(data.path(), &["bulk"])?;
        let outcome = run_until_failpoint(
            &mut command,
            &format!("store::purge_step={after}*off->panic"),
            LIMIT,
        )?;
        assert!(outcome.acknowledged.iter().any(|line| line.starts_with("deleted ")));
        check(data.path(), &[]).map_err(|e| format!("after {after} steps: {e}"))?;
        let store = crate::ledger::open(data.path())?;
        let ctx = crate::ledger::context()?;
        assert!(store.maintenance().purge_deleted(&ctx, 10_000)?);
        drop(store);
        check(data.path(), &[]).map_err(|e| format!("finished after {after} steps: {e}"))?;
    }
    Ok(())
}

/// Two processes on one file: both are killed, neither loses an acknowledged write (40 deaths).
#[test]
fn killing_two_writers_keeps_acknowledged_writes() -> Fallible {
    let data = TempDataDir::new()?;
    let mut rng = SeededRng::new(99);
    let mut all = Vec::new();
    for round in 0..test_rounds::choose_rounds(99, 20) {
        let (one, two) = ((round * 2 + 1).to_string(), (round * 2 + 2).to_string());
        let first =
            KillableProgram::start(&mut ledger(data.path(), &["load", &one, "3", "100000"])?)?;
        let second =
            KillableProgram::start(&mut ledger(data.path(), &["load", &two, "3", "100000"])?)?;
        let draw = |rng: &mut SeededRng| KillTrigger::random(rng, 60, Duration::from_millis(250));
        let outcome = first.kill_on(draw(&mut rng), LIMIT)?;
        all.extend(acks(&outcome.acknowledged));
        let outcome = second.kill_on(draw(&mut rng), LIMIT)?;
        all.extend(acks(&outcome.acknowledged));
        check(data.path(), &all).map_err(|e| format!("round {round}: {e}"))?;
    }
    assert!(!all.is_empty());
    Ok(())
}
