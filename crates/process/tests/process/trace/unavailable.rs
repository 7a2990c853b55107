//! Commands that cannot be traced, or not completely, run all the same.

use turnstone_process::{OutputLimits, OutputRecorder, TraceOptions, TraceOutcome};
use turnstone_testkit::small_disk::SmallDisk;
use turnstone_trace::{TraceGapReason, TraceLog, TraceUnavailable};

use crate::process_fixture::{Fallible, attach, example};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

#[test]
fn command_in_a_traced_tree_runs_untraced_and_is_seen_by_the_outer_trace() -> Fallible {
    let case = TraceFixture::new()?;
    let owner = example()?;
    let inner = case.log_path("inner");
    let script = format!(
        "{} trace {} 100 group /bin/sh -c 'echo x > inside' 2> report",
        owner.display(),
        inner.display()
    );
    let log = case.run(&script)?;
    assert_complete(&log);
    assert!(case.lines(&log).contains(&"Create inside".to_owned()));
    let report = fs_err::read_to_string(case.dir.join("report"))?;
    assert!(report.contains(&TraceUnavailable::NestedListener.to_string()), "{report}");
    assert!(!inner.exists());
    Ok(())
}

#[test]
fn command_whose_log_cannot_be_created_runs_untraced() -> Fallible {
    let case = TraceFixture::new()?;
    let mut command = case.traced("no/such/directory", case.process.script("echo x > made"));
    command.orphan_policy = turnstone_process::OrphanPolicy::End;
    let prepared = case.process.prepare(&command)?;
    let outcome = prepared.trace().clone();
    assert!(
        matches!(outcome, TraceOutcome::Unavailable(TraceUnavailable::Failed(_))),
        "{outcome:?}"
    );
    let outcome =
        attach(prepared.start()?, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!(outcome.exit.code(), 0);
    assert!(case.dir.join("made").exists());
    Ok(())
}

#[test]
fn command_that_is_not_to_be_traced_is_not() -> Fallible {
    let case = TraceFixture::new()?;
    let prepared = case.process.prepare(&case.process.script("true"))?;
    assert_eq!(prepared.trace(), &TraceOutcome::NotRequested);
    Ok(())
}

#[test]
fn command_under_a_policy_that_kills_runs_untraced() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("policy.c"), include_str!("kill_policy.c"))?;
    let script = format!(
        "cc -o policy policy.c && ./policy {} trace {} 100 group /bin/sh -c 'echo x > inside' 2> report",
        example()?.display(),
        case.log_path("inner").display()
    );
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let outcome = attach(case.process.start(&script)?, &mut recorder)?;
    assert_eq!(outcome.exit.code(), 0);
    let report = fs_err::read_to_string(case.dir.join("report"))?;
    assert!(report.contains(&TraceUnavailable::RefusedByPolicy.to_string()), "{report}");
    assert!(case.dir.join("inside").exists());
    Ok(())
}

#[test]
fn log_on_a_full_disk_is_marked_as_incomplete() -> Fallible {
    let Some(disk) = SmallDisk::mount(64)? else { return Ok(()) };
    let case = TraceFixture::new()?;
    let log = disk.path().join("log");
    let script = "for i in $(seq 2000); do : > f$i || exit 9; done; rm f1; exit 3";
    let mut command = case.process.script(script);
    command.trace = Some(TraceOptions { log: log.clone() });
    let running = case.start(&command)?;
    let outcome = attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    assert_eq!((outcome.exit.code(), outcome.is_trace_lost), (3, false));
    let log = TraceLog::read(log)?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::LogIncomplete]);
    assert!(case.lines(&log).contains(&"Create f1".to_owned()));
    Ok(())
}
