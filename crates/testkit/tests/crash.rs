//! Programs are killed at a chosen point, and what they acknowledged is known.

use std::{
    error::Error,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use turnstone_testkit::{
    crash::{
        CrashError, ExitCause, KillTrigger, KillableProgram, run_concurrently, run_until_failpoint,
    },
    fixture::{SeededRng, TempDataDir},
};

type TestResult = Result<(), Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(300);

fn probe_command(steps: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg("/nonexistent").args(steps);
    command
}

/// The example is built with the tests; without it this fails, and says what is missing.
fn failpoint_example() -> Result<Command, Box<dyn Error>> {
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(|deps| deps.parent()).ok_or("no build directory")?;
    let example: PathBuf = profile.join("examples/failpoint");
    if !example.exists() {
        return Err(format!("{} is missing: cargo build --examples", example.display()).into());
    }
    Ok(Command::new(example))
}

#[test]
fn program_is_killed_after_a_number_of_lines() -> TestResult {
    let victim = KillableProgram::start(&mut probe_command(&["count:1000000:1"]))?;
    let outcome = victim.kill_on(KillTrigger::Lines(5), LIMIT)?;
    assert_eq!(outcome.death, ExitCause::Signalled(9));
    assert!(outcome.acknowledged.len() >= 5 && outcome.acknowledged.len() < 1000);
    assert_eq!(outcome.acknowledged[4], "5");
    Ok(())
}

#[test]
fn program_is_killed_after_a_time() -> TestResult {
    let victim = KillableProgram::start(&mut probe_command(&["count:1000000:1"]))?;
    let outcome = victim.kill_on(KillTrigger::After(Duration::from_millis(100)), LIMIT)?;
    assert!(outcome.death.is_kill_or_abort());
    Ok(())
}

#[test]
fn random_triggers_depend_on_the_seed() {
    let draw = |seed| {
        let mut rng = SeededRng::new(seed);
        (0..20).map(|_| KillTrigger::random(&mut rng, 10, LIMIT)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert!(draw(1).iter().any(|trigger| matches!(trigger, KillTrigger::Lines(_))));
    assert!(draw(1).iter().any(|trigger| matches!(trigger, KillTrigger::After(_))));
}

#[test]
fn partial_last_line_is_not_acknowledged() -> TestResult {
    let mut victim =
        KillableProgram::start(&mut probe_command(&["ack:one", "partial:two", "sleep:60000"]))?;
    victim.wait_for_lines(1, LIMIT)?;
    thread::sleep(Duration::from_millis(50));
    assert_eq!(victim.kill()?.acknowledged, ["one"]);
    Ok(())
}

#[test]
fn program_aborts_at_its_failpoint() -> TestResult {
    let failpoint = "count::after_ack=3*off->panic";
    let outcome = run_until_failpoint(&mut failpoint_example()?, failpoint, LIMIT)?;
    assert_eq!(outcome.acknowledged, ["1", "2", "3", "4"]);
    assert_eq!(outcome.death, ExitCause::Signalled(6));
    Ok(())
}

#[test]
fn surviving_the_failpoint_is_an_error() -> TestResult {
    let result = run_until_failpoint(&mut failpoint_example()?, "no::such=panic", LIMIT);
    let Err(CrashError::Survived(outcome)) = result else {
        return Err("it should live".into());
    };
    assert_eq!((outcome.death, outcome.acknowledged.len()), (ExitCause::Exited(0), 10));
    Ok(())
}

#[test]
fn suspended_program_stops_until_resumed() -> TestResult {
    let mut victim = KillableProgram::start(&mut probe_command(&["count:1000000:1"]))?;
    victim.wait_for_lines(3, LIMIT)?;
    victim.suspend()?;
    // The kernel stops it when it next looks at it.
    let stat = format!("/proc/{}/stat", victim.process_id());
    let is_stopped = || fs_err::read_to_string(&stat).is_ok_and(|text| text.contains(") T "));
    let deadline = Instant::now() + LIMIT;
    while !is_stopped() {
        assert!(Instant::now() < deadline, "it was never stopped");
        thread::sleep(Duration::from_millis(5));
    }
    let said = victim.acknowledged().len();
    victim.resume()?;
    victim.wait_for_lines(said + 3, LIMIT)?;
    assert!(victim.kill()?.death.is_kill_or_abort());
    Ok(())
}

#[test]
fn suspended_program_can_be_killed() -> TestResult {
    let mut victim = KillableProgram::start(&mut probe_command(&["count:1000000:1"]))?;
    victim.wait_for_lines(1, LIMIT)?;
    victim.suspend()?;
    assert_eq!(victim.kill()?.death, ExitCause::Signalled(9));
    Ok(())
}

#[test]
fn two_programs_run_concurrently() -> TestResult {
    let data = TempDataDir::new()?;
    let program = |own: &str, other: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
        command.arg(data.path()).args([format!("open:{own}"), format!("await:{other}")]);
        command.arg(format!("ack:{own}"));
        command
    };
    // Each waits for the other: one after the other they would never end.
    let (first, second) = run_concurrently(&mut program("a", "b"), &mut program("b", "a"), LIMIT)?;
    assert_eq!((first.acknowledged, second.acknowledged), (vec!["a".into()], vec!["b".into()]));
    assert_eq!((first.death, second.death), (ExitCause::Exited(0), ExitCause::Exited(0)));
    Ok(())
}

#[test]
fn hanging_program_times_out_and_is_killed() -> TestResult {
    let victim = KillableProgram::start(&mut probe_command(&["ack:one", "sleep:60000"]))?;
    let id = victim.process_id();
    let result = victim.wait(Duration::from_millis(100));
    assert!(matches!(result, Err(CrashError::Timeout { .. })), "{result:?}");
    assert!(!PathBuf::from(format!("/proc/{id}")).exists());
    Ok(())
}

#[test]
fn failure_includes_the_programs_stderr() -> TestResult {
    let outcome =
        KillableProgram::start(&mut probe_command(&["ack:one", "nonsense"]))?.wait(LIMIT)?;
    assert_eq!(outcome.death, ExitCause::Exited(1));
    assert!(outcome.stderr.contains("no such step"), "{}", outcome.stderr);
    Ok(())
}
