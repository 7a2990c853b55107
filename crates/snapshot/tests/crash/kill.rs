//! Killed at random and at named points: 300 deaths and more.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use turnstone_testkit::crash::{CrashError, KillTrigger, KillableProgram, run_until_failpoint};
use turnstone_testkit::fixture::{SeededRng, TempDataDir};
use turnstone_testkit::test_rounds;

use crate::store_process::{
    Fallible, acknowledged_captures, check_store, commit_checkout, store_process_command,
};

const LIMIT: Duration = Duration::from_secs(300);

fn temp_data() -> Fallible<TempDataDir> {
    let data = TempDataDir::in_memory()?;
    fs_err::create_dir(data.path().join("work"))?;
    Ok(data)
}

/// Kills one process after the other on the same store, by lines read or by time.
fn kill_repeatedly(seed: u64, kills: u64, command: &str) -> Fallible {
    let data = temp_data()?;
    let mut rng = SeededRng::new(seed);
    let mut all = Vec::new();
    for round in 0..test_rounds::choose_rounds(seed, kills) {
        let run = (seed * 1000 + round).to_string();
        let victim = KillableProgram::start(&mut store_process_command(
            data.path(),
            &[command, &run, "100000"],
        )?)?;
        let trigger = KillTrigger::random(&mut rng, 8, Duration::from_millis(60));
        let outcome = victim.kill_on(trigger, LIMIT)?;
        assert!(outcome.death.is_kill_or_abort(), "{outcome:?}");
        all.extend(acknowledged_captures(&outcome.acknowledged));
        check_store(data.path(), &all).map_err(|error| format!("round {round}: {error}"))?;
        check_worktree_files(data.path())
            .map_err(|error| format!("seed {seed}, round {round}: {error}"))?;
    }
    assert!(!all.is_empty(), "nothing was acknowledged");
    Ok(())
}

/// Every file of the worktree is as one of its writers left it, and no file of ours is among them.
fn check_worktree_files(dir: &Path) -> Fallible {
    let mut todo = vec![dir.join("work")];
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            if path.to_string_lossy().contains("turnstone-tmp") {
                return Err(format!("{} is left", path.display()).into());
            }
            let text = fs_err::read_to_string(&path)?;
            let mut lines = BTreeMap::<&str, usize>::new();
            text.lines().for_each(|line| *lines.entry(line).or_default() += 1);
            // The writer itself may have been killed while it wrote, so an empty file is its own.
            if !text.is_empty() && lines.into_values().collect::<Vec<_>>() != [40] {
                return Err(format!("{} is damaged", path.display()).into());
            }
        }
    }
    Ok(())
}

#[test]
fn kill_during_capture_loses_no_returned_capture() -> Fallible {
    kill_repeatedly(1, 70, "load")
}

#[test]
fn kill_during_capture_loses_no_returned_capture_second_seed() -> Fallible {
    kill_repeatedly(2, 70, "load")
}

#[test]
fn kill_during_gc_and_merge_loses_no_pinned_capture() -> Fallible {
    kill_repeatedly(4, 40, "churn")
}

#[test]
fn kill_during_restore_loses_or_truncates_no_file() -> Fallible {
    kill_repeatedly(3, 70, "swing")
}

/// Dies at every named point of captures and restores, a little later each time.
#[test]
fn kill_at_every_failpoint_is_recovered() -> Fallible {
    let points = [
        ("load", "snapshot::walked"),
        ("load", "snapshot::pack_synced"),
        ("load", "snapshot::pack_named"),
        ("load", "snapshot::index_named"),
        ("load", "snapshot::pack_durable"),
        ("load", "snapshot::ref_synced"),
        ("load", "snapshot::ref_durable"),
        ("churn", "snapshot::pack_named"),
        ("churn", "snapshot::repacked"),
        ("churn", "snapshot::pack_dropped"),
        ("swing", "snapshot::plan_stored"),
        ("swing", "snapshot::before_swap"),
        ("swing", "snapshot::swapped"),
        ("swing", "snapshot::group_done"),
        ("swing", "snapshot::restored"),
    ];
    for (command, point) in points {
        let data = temp_data()?;
        let mut all = Vec::new();
        for after in [0, 1, 2, 3, 5, 8, 13, 21] {
            let run = (after + 1).to_string();
            let mut program = store_process_command(data.path(), &[command, &run, "40"])?;
            match run_until_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT) {
                Ok(outcome) => all.extend(acknowledged_captures(&outcome.acknowledged)),
                Err(CrashError::Survived(outcome)) => {
                    return Err(format!("{point}={after}: {outcome:?}").into());
                }
                Err(error) => return Err(error.into()),
            }
            check_store(data.path(), &all).map_err(|error| format!("{point} {after}: {error}"))?;
            check_worktree_files(data.path())
                .map_err(|error| format!("{point} {after}: {error}"))?;
        }
    }
    Ok(())
}

/// Dies at every named point of a reuse of packs and at moments in between; borrowed objects are there or not needed.
/// Proves R10.
#[test]
fn kill_with_borrowed_packs_loses_no_returned_capture() -> Fallible {
    for point in [
        "snapshot::pack_lent",
        "snapshot::loan_durable",
        "snapshot::pack_durable",
        "snapshot::ref_durable",
        "snapshot::settling",
        "snapshot::pack_dropped",
    ] {
        let data = temp_data()?;
        commit_checkout(data.path())?;
        let mut all = Vec::new();
        for after in 0..4 {
            let run = (after + 1).to_string();
            let mut program = store_process_command(data.path(), &["reuse", &run, "6"])?;
            let outcome =
                run_until_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT)
                    .map_err(|error| format!("{point}={after}: {error}"))?;
            all.extend(acknowledged_captures(&outcome.acknowledged));
            check_store(data.path(), &all).map_err(|error| format!("{point} {after}: {error}"))?;
            // Whatever the check itself remembered.
            fs_err::remove_file(data.path().join("store/stat-cache"))?;
        }
        fs_err::remove_dir_all(data.path().join("work/.git"))?;
        check_store(data.path(), &all)
            .map_err(|error| format!("{point}, no repository: {error}"))?;
    }
    Ok(())
}
