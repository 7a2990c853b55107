//! Whose changes a trace holds: the tree's, and no others.

use std::thread;

use rustix::process::Signal;
use turnstone_process::{CommandStdio, OrphanPolicy, OutputLimits, OutputRecorder};

use crate::process_fixture::{Fallible, attach, is_alive, signal, wait_until};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

#[test]
fn changes_of_a_foreign_writer_are_never_recorded() -> Fallible {
    let case = TraceFixture::new()?;
    let script = "echo go > started; while [ ! -e stop ]; do \
                  echo own > own.tmp; mv own.tmp own; rm own; done; true";
    let running = case.start(&case.traced("trace", case.process.script(script)))?;
    case.process.wait_for_file("started")?;
    for round in 0..200 {
        let name = case.dir.join(format!("foreign{}", round % 5));
        fs_err::write(case.dir.join("foreign.tmp"), "theirs")?;
        fs_err::rename(case.dir.join("foreign.tmp"), &name)?;
        if round % 3 == 0 {
            fs_err::remove_file(&name)?;
        }
    }
    fs_err::write(case.dir.join("stop"), "")?;
    attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    let log = case.read("trace")?;
    assert_complete(&log);
    let lines = case.lines(&log);
    assert!(lines.contains(&"MoveTo own own.tmp".to_owned()), "{lines:?}");
    let foreign = lines.iter().filter(|line| line.contains("foreign") || line.contains("stop"));
    assert_eq!(foreign.count(), 0, "{lines:?}");
    Ok(())
}

#[test]
fn two_traced_commands_at_once_are_disjoint() -> Fallible {
    let case = TraceFixture::new()?;
    let run = |name: &str| {
        let script = format!("for i in $(seq 50); do echo {name} > {name}$i; done");
        let command = case.traced(name, case.process.script(&script));
        let running = case.start(&command).map_err(|error| error.to_string())?;
        attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))
            .map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let (one, two) = (scope.spawn(|| run("one")), scope.spawn(|| run("two")));
        one.join().expect("no panic")?;
        two.join().expect("no panic").map(drop)
    })?;
    for name in ["one", "two"] {
        let log = case.read(name)?;
        assert_complete(&log);
        let lines = case.lines(&log);
        assert_eq!(lines.len(), 50, "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with(&format!("Create {name}"))), "{lines:?}");
    }
    Ok(())
}

#[test]
fn daemon_is_recorded_after_the_command_has_ended() -> Fallible {
    let case = TraceFixture::new()?;
    let script = "exec 3> kept; setsid sh -c 'echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; \
                  echo late > late; rm pid' & while [ ! -s pid ]; do sleep 0.01; done";
    let mut command = case.process.script(script);
    command.orphan_policy = OrphanPolicy::Leave;
    let (outcome, output) = case.run_command(&command)?;
    assert_eq!(outcome.exit.code(), 0, "{output}");

    let log = case.read("trace")?;
    assert_complete(&log);
    assert!(!log.ended);
    let pid = case.process.wait_for_file("pid")?;
    let daemon = log.remaining.iter().find(|process| process.pid.to_string() == pid);
    let files = daemon.and_then(|process| process.open_for_writing.clone());
    assert_eq!(files, Some(vec![case.dir.join("kept")]), "{:?}", log.remaining);

    fs_err::write(case.dir.join("go"), "")?;
    wait_until("the tree has ended", || case.read("trace").is_ok_and(|log| log.ended))?;
    let lines = case.lines(&case.read("trace")?);
    assert_eq!(
        lines.iter().filter(|line| line.contains("late")).collect::<Vec<_>>(),
        ["Create late"]
    );
    assert_eq!(fs_err::read_to_string(case.dir.join("late"))?, "late\n");
    Ok(())
}

#[test]
fn daemon_writes_on_after_supervisor_and_owner_were_killed() -> Fallible {
    for victim in ["supervisor", "owner"] {
        let case = TraceFixture::new()?;
        let script = "setsid sh -c 'echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; \
                      echo late > late' & while [ ! -s pid ]; do sleep 0.01; done; sleep 1000";
        let mut owner = case.process.owner(100, script)?;
        let mut owner = {
            let args: Vec<_> = owner.get_args().skip(1).map(ToOwned::to_owned).collect();
            let program = owner.get_program().to_owned();
            #[expect(clippy::disallowed_methods, reason = "a test starts the program it kills")]
            let mut traced = std::process::Command::new(program);
            traced.arg("trace").arg(case.log_path("trace")).args(args);
            traced.current_dir(&case.dir).stdin(std::process::Stdio::null());
            drop(std::mem::replace(&mut owner, traced));
            owner.spawn()?
        };
        let daemon = case.process.wait_for_file("pid")?;
        let group = case.process.recorded_group()?;
        let pid =
            if victim == "owner" { owner.id().to_string() } else { group.session.to_string() };
        signal(&pid, Signal::KILL)?;
        owner.wait()?;
        wait_until("the command has ended", || !is_alive(&group.pgid.to_string()))?;

        assert!(is_alive(&daemon), "{victim}");
        fs_err::write(case.dir.join("go"), "")?;
        wait_until("the tree has ended", || case.read("trace").is_ok_and(|log| log.ended))?;
        let log = case.read("trace")?;
        assert_complete(&log);
        assert!(case.lines(&log).contains(&"Create late".to_owned()), "{victim}");
    }
    Ok(())
}

#[test]
fn redirected_output_is_recorded_as_written() -> Fallible {
    let case = TraceFixture::new()?;
    let file =
        |name: &str| fs_err::File::create(case.dir.join(name)).map(|file| file.into_parts().0);
    let (input, output, errors) = (file("in")?, file("out")?, file("err")?);
    let input = {
        drop(input);
        fs_err::File::open(case.dir.join("in"))?.into_parts().0
    };
    let command = case.traced("trace", case.process.script("echo x"));
    let stdio =
        CommandStdio::Given { stdin: input.into(), stdout: output.into(), stderr: errors.into() };
    let running = case.process.supervisor.prepare(&command, stdio)?.start()?;
    attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    let log = case.read("trace")?;
    assert_complete(&log);
    assert_eq!(case.lines(&log), ["OpenForWrite out", "OpenForWrite err"]);
    Ok(())
}

/// A call that is reported while its directory is missing may be carried out after another thread made it.
#[test]
fn threads_that_race_for_a_directory_are_recorded() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("race.c"), include_str!("directory_race.c"))?;
    fs_err::create_dir(case.dir.join("work"))?;
    let log = case.run("cc -O1 -pthread -o race race.c && cd work && ../race")?;
    assert_complete(&log);
    let lines: std::collections::BTreeSet<_> = case.lines(&log).into_iter().collect();
    let mut made = 0;
    for number in 0..150 {
        for name in ["x", "y", "z/x"] {
            let path = format!("work/d{number}/{name}");
            if case.dir.join(&path).symlink_metadata().is_ok() {
                made += 1;
                let touched = lines.iter().any(|line| {
                    let (_, touched) = line.split_once(' ').unwrap_or_default();
                    touched == path || touched.starts_with(&format!("{path} "))
                });
                assert!(touched, "{path} was made without a touch");
            }
        }
    }
    assert!(made > 0);
    Ok(())
}
