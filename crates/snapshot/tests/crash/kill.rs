//! Killed at random and at named points: 300 deaths and more.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use turnstone_testkit::campaign;
use turnstone_testkit::crash::{CrashError, Trigger, Victim, die_at_failpoint};
use turnstone_testkit::fixture::{Rng, TempData};

use crate::vault::{Fallible, acks, check, commit, vault};

const LIMIT: Duration = Duration::from_secs(300);

fn data() -> Fallible<TempData> {
    let data = TempData::in_memory()?;
    fs_err::create_dir(data.path().join("work"))?;
    Ok(data)
}

/// Kills one process after the other on the same store, by lines read or by time.
fn kill_in_a_row(seed: u64, kills: u64, command: &str) -> Fallible {
    let data = data()?;
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for round in 0..campaign::rounds(seed, kills) {
        let run = (seed * 1000 + round).to_string();
        let victim = Victim::start(&mut vault(data.path(), &[command, &run, "100000"])?)?;
        let trigger = Trigger::draw(&mut rng, 8, Duration::from_millis(60));
        let outcome = victim.kill_on(trigger, LIMIT)?;
        assert!(outcome.death.is_sudden(), "{outcome:?}");
        all.extend(acks(&outcome.acknowledged));
        check(data.path(), &all).map_err(|error| format!("round {round}: {error}"))?;
        whole(data.path()).map_err(|error| format!("seed {seed}, round {round}: {error}"))?;
    }
    assert!(!all.is_empty(), "nothing was acknowledged");
    Ok(())
}

/// Every file of the worktree is as one of its writers left it, and no file of ours is among them.
fn whole(dir: &Path) -> Fallible {
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
fn killed_while_capturing_no_returned_id_is_lost() -> Fallible {
    kill_in_a_row(1, 70, "load")
}

#[test]
fn killed_while_capturing_another_store_no_returned_id_is_lost() -> Fallible {
    kill_in_a_row(2, 70, "load")
}

#[test]
fn killed_while_collecting_and_merging_no_pinned_capture_is_lost() -> Fallible {
    kill_in_a_row(4, 40, "churn")
}

#[test]
fn killed_while_restoring_no_file_is_lost_or_truncated() -> Fallible {
    kill_in_a_row(3, 70, "swing")
}

/// Dies at every named point of captures and restores, a little later each time.
#[test]
fn killed_at_every_named_point_everything_is_finished_afterwards() -> Fallible {
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
        let data = data()?;
        let mut all = Vec::new();
        for after in [0, 1, 2, 3, 5, 8, 13, 21] {
            let run = (after + 1).to_string();
            let mut program = vault(data.path(), &[command, &run, "40"])?;
            match die_at_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT) {
                Ok(outcome) => all.extend(acks(&outcome.acknowledged)),
                Err(CrashError::Survived(outcome)) => {
                    return Err(format!("{point}={after}: {outcome:?}").into());
                }
                Err(error) => return Err(error.into()),
            }
            check(data.path(), &all).map_err(|error| format!("{point} {after}: {error}"))?;
            whole(data.path()).map_err(|error| format!("{point} {after}: {error}"))?;
        }
    }
    Ok(())
}

/// Dies at every named point of a loan and at moments in between; what was lent is there or not needed.
#[test]
fn killed_while_objects_are_lent_no_returned_id_is_lost_r10() -> Fallible {
    for point in [
        "snapshot::pack_lent",
        "snapshot::loan_durable",
        "snapshot::pack_durable",
        "snapshot::ref_durable",
        "snapshot::settling",
        "snapshot::pack_dropped",
    ] {
        let data = data()?;
        commit(data.path())?;
        let mut all = Vec::new();
        for after in 0..4 {
            let run = (after + 1).to_string();
            let mut program = vault(data.path(), &["loan", &run, "6"])?;
            let outcome =
                die_at_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT)
                    .map_err(|error| format!("{point}={after}: {error}"))?;
            all.extend(acks(&outcome.acknowledged));
            check(data.path(), &all).map_err(|error| format!("{point} {after}: {error}"))?;
            // Whatever the check itself remembered.
            fs_err::remove_file(data.path().join("store/stat-cache"))?;
        }
        fs_err::remove_dir_all(data.path().join("work/.git"))?;
        check(data.path(), &all).map_err(|error| format!("{point}, no repository: {error}"))?;
    }
    Ok(())
}
