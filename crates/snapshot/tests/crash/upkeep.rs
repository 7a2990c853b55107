//! Killed, cut off and out of space while it tidies up: nothing pinned is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use turnstone_snapshot::Oid;
use turnstone_testkit::campaign;
use turnstone_testkit::crash::{CrashError, Trigger, Victim, die_at_failpoint};
use turnstone_testkit::fault::{Errno, Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::{Rng, TempData};
use turnstone_testkit::powerloss::{Policy, Recorder};

use crate::vault::{Fallible, acks, check, vault};

const LIMIT: Duration = Duration::from_secs(300);

fn data() -> Fallible<TempData> {
    let data = TempData::new()?;
    fs_err::create_dir(data.path().join("work"))?;
    Ok(data)
}

/// Captures that were acknowledged and were never said to expire.
#[derive(Default)]
struct Pinned(BTreeMap<Oid, Oid>);

impl Pinned {
    fn read(&mut self, lines: &[String]) {
        for line in lines {
            self.0.extend(acks(std::slice::from_ref(line)));
            if let Some(id) = line.strip_prefix("gone ").and_then(|text| text.parse().ok()) {
                self.0.remove(&id);
            }
        }
    }

    fn list(&self) -> Vec<(Oid, Oid)> {
        self.0.iter().map(|(id, tree)| (*id, *tree)).collect()
    }
}

#[test]
fn killed_at_random_during_upkeep_nothing_pinned_is_lost() -> Fallible {
    let data = data()?;
    let mut rng = Rng::new(7);
    let mut pinned = Pinned::default();
    for round in 0..campaign::rounds(7, 50) {
        let run = (7000 + round).to_string();
        let victim = Victim::start(&mut vault(data.path(), &["tend", &run, "100000"])?)?;
        let trigger = Trigger::draw(&mut rng, 12, Duration::from_millis(200));
        let outcome = victim.kill_on(trigger, LIMIT)?;
        assert!(outcome.death.is_sudden(), "{outcome:?}");
        pinned.read(&outcome.acknowledged);
        check(data.path(), &pinned.list()).map_err(|error| format!("round {round}: {error}"))?;
    }
    assert!(!pinned.0.is_empty(), "nothing was acknowledged");
    Ok(())
}

fn die_at(points: &[&str]) -> Fallible {
    for point in points {
        let data = data()?;
        let mut pinned = Pinned::default();
        for after in [0, 1, 2, 3, 5, 8] {
            let run = (after + 1).to_string();
            let mut program = vault(data.path(), &["tend", &run, "12"])?;
            match die_at_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT) {
                Ok(outcome) => pinned.read(&outcome.acknowledged),
                Err(CrashError::Survived(_)) => {
                    return Err(format!("{point}={after} was never reached").into());
                }
                Err(error) => return Err(error.into()),
            }
            check(data.path(), &pinned.list())
                .map_err(|error| format!("{point} {after}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn killed_at_every_named_point_of_a_repack_nothing_pinned_is_lost() -> Fallible {
    die_at(&[
        "snapshot::lined_up",
        "snapshot::repacked",
        "snapshot::pack_hidden",
        "snapshot::pack_dropped",
    ])
}

#[test]
fn killed_at_every_named_point_of_an_expiry_nothing_pinned_is_lost() -> Fallible {
    die_at(&[
        "snapshot::refs_dropped",
        "snapshot::expired_packed",
        "snapshot::ref_synced",
        "snapshot::expired",
        "snapshot::index_named",
    ])
}

#[test]
fn a_power_cut_during_upkeep_loses_nothing_pinned_r34() -> Fallible {
    let data = data()?;
    let command = vault(data.path(), &["tend", "1", "4"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let sound = |image: &std::path::Path, lines: &[String]| {
        let mut pinned = Pinned::default();
        pinned.read(lines);
        check(image, &pinned.list()).map(drop).map_err(|error| error.to_string())
    };
    for (policy, seed) in [(Policy::STRICT, 1), (Policy::torn(1), 2)] {
        let points = recording.sample(50, seed);
        let losses = recording.losses(&points, policy, sound)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// One call after the other finds the disk full; space returns at once.
#[test]
fn a_full_disk_fails_one_capture_and_the_next_one_works_r35() -> Fallible {
    let mut refused = 0;
    for call in [Syscall::Fsync, Syscall::Write] {
        for nth in (1..40).step_by(3) {
            let data = data()?;
            let fault = Fault::new(call).error(Errno::Enospc).when(nth);
            let plan = FaultPlan::new(fault).limit(LIMIT);
            let run = plan.run(&vault(data.path(), &["fill", "3", "6"])?)?;
            let lines = String::from_utf8(run.stdout.clone())?;
            let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
            let full = lines.iter().filter(|line| *line == "full").count();
            // Before the store is open, and in the worktree itself, the program may give up.
            assert!(
                full > 0 || run.fired() == 0 || !run.status.success() || call == Syscall::Write
            );
            if full > 0 {
                refused += 1;
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
                assert!(acks(&lines).len() + full == 6, "the others worked: {lines:?}");
            }
            check(data.path(), &acks(&lines))
                .map_err(|error| format!("{call:?} {nth}: {error}"))?;
        }
    }
    assert!(refused >= 10, "only {refused} captures met the full disk");
    Ok(())
}
