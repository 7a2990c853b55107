//! Commands inside a tool call that go on after it: what they write belongs to the call (R2).

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use turnstone_core::change::Evidence;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{
    CallCommand, CallCommandEnd, CallCommandStreams, CallCommands, CommandExit, SupervisorProgram,
    ToolFileAccess, Turn, UndoTarget,
};
use turnstone_store::ChangeSetRow;

use crate::engine_fixture::{EngineFixture, answer, ctx, part};

fn supervisor() -> SupervisorProgram {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().and_then(Path::parent).expect("a build directory");
    let program = folder.join("examples/supervisor");
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    SupervisorProgram { program, args: Vec::new() }
}

/// Runs a traced script as the shell tool does, in a call of its own.
fn run_in_call(case: &EngineFixture, turn: &Turn, script: &str) {
    let said = answer(&turn.session, "a1", "1");
    case.engine.turns().steps().begin(&ctx(), turn, said.clone()).expect("begins");
    let state = json!({"status": "running", "input": {}, "time": {"start": 1}});
    let call = json!({"type": "tool", "callID": "t1", "tool": "bash", "state": state});
    let call = part(&said, "t1", call);
    let steps = case.engine.turns().steps();
    steps.begin_tool(&ctx(), turn, &call, &ToolFileAccess::Nothing).expect("begins");
    let commands = CallCommands {
        commands: case.engine.turns().commands(),
        turn,
        part: &call.id,
        clock: &ctx,
    };
    let command = CallCommand {
        supervisor: supervisor(),
        program: "/bin/sh".into(),
        args: ["-c", script].map(OsString::from).to_vec(),
        directory: case.root(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        access: ToolFileAccess::Anything,
        is_traced: true,
        grace: Duration::from_secs(2),
    };
    let (mut stdout, mut stderr) = (std::io::sink(), std::io::sink());
    let streams =
        CallCommandStreams { stdout: &mut stdout, stderr: &mut stderr, started: &mut |_| {} };
    let report = commands.run(&command, streams).expect("runs");
    assert_eq!(report.end, CallCommandEnd::Exited(CommandExit::Code(0)));
}

fn change_sets(case: &EngineFixture, turn: &Turn) -> Vec<ChangeSetRow> {
    case.engine.store().read(&ctx(), |r| r.change_sets().list(&turn.session)).expect("listed")
}

fn paths_of(row: &ChangeSetRow) -> Vec<String> {
    row.set.changes.iter().map(|change| change.path.to_string()).collect()
}

/// Waits until no process of the call is left, and closes what waited for them.
fn await_end(case: &EngineFixture, turn: &Turn) -> Vec<ChangeSetRow> {
    loop {
        case.engine.maintenance().recover_all(&ctx()).expect("recovers");
        let sets = change_sets(case, turn);
        if sets.iter().all(|row| row.closed.is_some()) {
            return sets;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_daemon_of_a_call_writes_belongs_to_the_call() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let script = "echo early > early; setsid sh -c 'echo up > ../up; while [ ! -e ../go ]; do sleep 0.02; done; \
                  echo late > late' >/dev/null 2>&1 & while [ ! -s ../up ]; do sleep 0.02; done";

    run_in_call(&case, &turn, script);

    let sets = change_sets(&case, &turn);
    let open: Vec<bool> = sets.iter().map(|row| row.closed.is_none()).collect();
    assert_eq!(open, [false, true], "the window of the daemon stays open: {sets:?}");
    assert_eq!(sets[1].continues.as_ref(), Some(&sets[0].set.id));
    assert_eq!(sets[1].set.part, sets[0].set.part);
    case.put("theirs", Some("by a person"));
    case.engine.turns().end(&ctx(), &turn, TurnOutcome::Completed, None).expect("ends");
    case.put("../go", Some(""));

    let sets = await_end(&case, &turn);
    let found: Vec<_> = sets.iter().map(|row| (row.set.evidence, paths_of(row))).collect();
    let traced = |path: &str| (Evidence::Traced, vec![path.to_owned()]);
    assert_eq!(found, [traced("early"), traced("late")]);
    let traces = fs_err::read_dir(case.dir.path().join("data/trace")).expect("a folder");
    assert_eq!(traces.count(), 0, "no trace is left");
    case.undo(&session, &UndoTarget::Turn(turn.id.clone()));
    assert_eq!(
        ["early", "late", "theirs"].map(|name| case.root().join(name).exists()),
        [false, false, true]
    );
}
