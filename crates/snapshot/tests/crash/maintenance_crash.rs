//! Killed, cut off and out of space while it tidies up: nothing pinned is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use turnstone_snapshot::Oid;
use turnstone_testkit::crash::{CrashError, KillTrigger, KillableProgram, run_until_failpoint};
use turnstone_testkit::fault::{Errno, Fault, FaultPlan, Syscall};
use turnstone_testkit::fixture::{SeededRng, TempDataDir};
use turnstone_testkit::powerloss::{PowerCutPolicy, Recorder};
use turnstone_testkit::test_rounds;

use crate::store_process::{Fallible, acknowledged_captures, check_store, store_process_command};

const LIMIT: Duration = Duration::from_secs(300);

fn temp_data() -> Fallible<TempDataDir> {
    let data = TempDataDir::new()?;
    fs_err::create_dir(data.path().join("work"))?;
    Ok(data)
}

/// Captures that were acknowledged and were never said to expire.
#[derive(Default)]
struct PinnedCaptures(BTreeMap<Oid, Oid>);

impl PinnedCaptures {
    fn read(&mut self, lines: &[String]) {
        for line in lines {
            self.0.extend(acknowledged_captures(std::slice::from_ref(line)));
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
fn random_kill_during_maintenance_loses_nothing_pinned() -> Fallible {
    let data = temp_data()?;
    let mut rng = SeededRng::new(7);
    let mut pinned = PinnedCaptures::default();
    for round in 0..test_rounds::choose_rounds(7, 50) {
        let run = (7000 + round).to_string();
        let victim = KillableProgram::start(&mut store_process_command(
            data.path(),
            &["maintain", &run, "100000"],
        )?)?;
        let trigger = KillTrigger::random(&mut rng, 12, Duration::from_millis(200));
        let outcome = victim.kill_on(trigger, LIMIT)?;
        assert!(outcome.death.is_kill_or_abort(), "{outcome:?}");
        pinned.read(&outcome.acknowledged);
        check_store(data.path(), &pinned.list())
            .map_err(|error| format!("round {round}: {error}"))?;
    }
    assert!(!pinned.0.is_empty(), "nothing was acknowledged");
    Ok(())
}

fn kill_at_failpoints(points: &[&str]) -> Fallible {
    for point in points {
        let data = temp_data()?;
        let mut pinned = PinnedCaptures::default();
        for after in [0, 1, 2, 3, 5, 8] {
            let run = (after + 1).to_string();
            let mut program = store_process_command(data.path(), &["maintain", &run, "12"])?;
            match run_until_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT) {
                Ok(outcome) => pinned.read(&outcome.acknowledged),
                Err(CrashError::Survived(_)) => {
                    return Err(format!("{point}={after} was never reached").into());
                }
                Err(error) => return Err(error.into()),
            }
            check_store(data.path(), &pinned.list())
                .map_err(|error| format!("{point} {after}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn kill_at_repack_failpoints_loses_nothing_pinned() -> Fallible {
    kill_at_failpoints(&[
        "snapshot::lined_up",
        "snapshot::repacked",
        "snapshot::pack_hidden",
        "snapshot::pack_dropped",
    ])
}

#[test]
fn kill_at_expiry_failpoints_loses_nothing_pinned() -> Fallible {
    kill_at_failpoints(&[
        "snapshot::refs_dropped",
        "snapshot::expired_packed",
        "snapshot::ref_synced",
        "snapshot::expired",
        "snapshot::index_named",
    ])
}

/// Proves R34.
#[test]
fn power_cut_during_maintenance_loses_nothing_pinned() -> Fallible {
    let data = temp_data()?;
    let command = store_process_command(data.path(), &["maintain", "1", "4"])?;
    let recording = Recorder::new(data.path()).record(&command)?;
    assert!(recording.status().success(), "{}", recording.stderr());
    let sound = |image: &std::path::Path, lines: &[String]| {
        let mut pinned = PinnedCaptures::default();
        pinned.read(lines);
        check_store(image, &pinned.list()).map(drop).map_err(|error| error.to_string())
    };
    for (policy, seed) in [(PowerCutPolicy::STRICT, 1), (PowerCutPolicy::torn(1), 2)] {
        let points = recording.sample_points(50, seed);
        let losses = recording.find_losses(&points, policy, sound)?;
        assert!(losses.is_empty(), "{} of {}: {}", losses.len(), points.len(), losses[0]);
    }
    Ok(())
}

/// One call after the other finds the disk full; space returns at once.
/// Proves R35.
#[test]
fn full_disk_fails_one_capture_and_the_next_succeeds() -> Fallible {
    let mut refused = 0;
    for call in [Syscall::Fsync, Syscall::Write] {
        for nth in (1..40).step_by(3) {
            let data = temp_data()?;
            let fault = Fault::new(call).error(Errno::Enospc).when(nth);
            let plan = FaultPlan::new(fault).limit(LIMIT);
            let run = plan.run(&store_process_command(data.path(), &["fill", "3", "6"])?)?;
            let lines = String::from_utf8(run.stdout.clone())?;
            let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
            let full = lines.iter().filter(|line| *line == "full").count();
            // Before the store is open, and in the worktree itself, the program may give up.
            assert!(
                full > 0
                    || run.injection_count() == 0
                    || !run.status.success()
                    || call == Syscall::Write
            );
            if full > 0 {
                refused += 1;
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
                assert!(
                    acknowledged_captures(&lines).len() + full == 6,
                    "the others worked: {lines:?}"
                );
            }
            check_store(data.path(), &acknowledged_captures(&lines))
                .map_err(|error| format!("{call:?} {nth}: {error}"))?;
        }
    }
    assert!(refused >= 10, "only {refused} captures met the full disk");
    Ok(())
}
