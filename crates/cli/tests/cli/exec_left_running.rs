//! Processes that go on after a traced command: what they write is recorded with its turn once they end.

use serde_json::{Value, json};

use crate::exec::{await_file, await_line, exec_shell, read_log, run_program};
use crate::fixture::{CliFixture, ProgramOutput};
use crate::undo_modes::{read_text, write_file};

/// A command that wrote `early` and leaves a daemon, which runs `later` once the file `go` is there.
fn start_daemon(case: &CliFixture, early: &str, later: &str) -> ProgramOutput {
    let daemon = format!(
        "echo $$ > ../pid; while [ ! -e ../go ]; do sleep 0.02; done; {later}; mv ../pid ../done"
    );
    fs_err::write(case.path("daemon.sh"), daemon).expect("written");
    let script = format!(
        "{early}; setsid sh ../daemon.sh >/dev/null 2>&1 & while [ ! -s ../pid ]; do sleep 0.02; done"
    );
    let ran = exec_shell(case, &script);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Lets the daemon go on, and waits until neither it nor its trace is left.
fn finish_daemon(case: &CliFixture) {
    write_file(case, "../go", "");
    await_file(&case.path("done"));
    let pid = await_line(&case.path("done"));
    let process = std::path::Path::new("/proc").join(pid.trim());
    while process.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn read_json(case: &CliFixture, args: &[&str]) -> Value {
    let ran = run_program(case, args);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

/// Reads the newest turn once its daemon is no longer recorded.
fn await_recorded_turn(case: &CliFixture) -> Value {
    for _ in 0..2400 {
        let log = read_log(case);
        let entries = log["entries"].as_array().expect("entries");
        let turn = entries.iter().rfind(|entry| entry["type"] == "turn").expect("a turn").clone();
        if turn["background"] != json!(true) {
            return turn;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("the window never closed");
}

fn paths_of(turn: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let files = turn["files"].as_array().expect("files").iter();
    files.map(|file| (text(&file["path"]), text(&file["evidence"]))).collect()
}

fn traced(path: &str) -> (String, String) {
    (path.to_owned(), "traced".to_owned())
}

/// Proves R2.
#[test]
fn changes_of_a_daemon_belong_to_the_turn_that_left_it_running() {
    let case = CliFixture::empty();
    write_file(&case, "theirs", "one\n");
    let ran = start_daemon(&case, "echo early > early", "echo late > late; echo more >> early");
    assert!(ran.err.contains("left running: sh ("), "{ran:?}");
    assert!(ran.err.contains("recorded with this turn once they end"), "{ran:?}");

    let status = read_json(&case, &["status", "--json"]);
    assert_eq!(status["background"].as_array().expect("a list").len(), 1, "{status}");
    let turn = read_log(&case)["entries"][0].clone();
    assert_eq!((paths_of(&turn), &turn["background"]), (vec![traced("early")], &json!(true)));
    write_file(&case, "theirs", "by a person\n");
    finish_daemon(&case);

    let turn = await_recorded_turn(&case);
    assert_eq!(paths_of(&turn), [traced("early"), traced("early"), traced("late")]);
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/early").exists() && !case.path("p/late").exists());
    assert_eq!(read_text(&case, "theirs"), "by a person\n");
}

/// Proves R2: it needs no further call to write what it has open.
#[test]
fn file_that_a_daemon_kept_open_is_its_change() {
    let case = CliFixture::empty();
    write_file(&case, "kept", "one\n");
    let ran = start_daemon(&case, "exec 3>> kept", "echo two >&3");
    assert!(ran.err.contains("still open for writing: kept"), "{ran:?}");
    finish_daemon(&case);

    assert_eq!(paths_of(&await_recorded_turn(&case)), [traced("kept")]);
    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, read_text(&case, "kept")), (0, "one\n".to_owned()), "{ran:?}");
}

/// Proves R3: hours may lie between the end of a daemon and the next command.
#[test]
fn file_that_a_person_changed_after_the_daemon_ended_is_left_alone() {
    let case = CliFixture::empty();
    start_daemon(&case, "true", "echo late > late; echo late > other");
    finish_daemon(&case);
    let trace = fs_err::read_dir(case.data_dir().join("trace")).expect("a folder");
    let trace = trace.last().expect("a trace").expect("readable").path();
    // The holder notices the end of the tree after the daemon has gone; then the lock of the trace is free.
    let is_free = || fs_err::File::open(&trace).expect("a trace").file().try_lock_shared().is_ok();
    while !is_free() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Until the clock of the files has gone on.
    let ended = fs_err::metadata(&trace).expect("a trace").modified().expect("a time");
    let saved = case.path("p/late");
    while fs_err::metadata(&saved).expect("a file").modified().expect("a time") <= ended {
        write_file(&case, "late", "late\nby a person\n");
    }

    let turn = await_recorded_turn(&case);
    assert_eq!(paths_of(&turn), [traced("late"), traced("other")]);
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(read_text(&case, "late"), "late\nby a person\n");
    assert!(!case.path("p/other").exists());
}

/// A running daemon is no obstacle for an undo, and what it wrote afterwards is undone by another one.
#[test]
fn turn_can_be_undone_while_its_daemon_runs_and_again_afterwards() {
    let case = CliFixture::empty();
    write_file(&case, "early", "one\n");
    start_daemon(&case, "echo two > early", "echo late > late");

    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, read_text(&case, "early")), (0, "one\n".to_owned()), "{ran:?}");
    assert!(ran.err.contains("left running may write in this directory"), "{ran:?}");
    finish_daemon(&case);

    let turn = await_recorded_turn(&case);
    assert_eq!(paths_of(&turn), [traced("early"), traced("late")]);
    let ran = run_program(&case, &["undo", "@1"]);
    assert_eq!((ran.code, case.path("p/late").exists()), (0, false), "{ran:?}");
    assert_eq!(read_text(&case, "early"), "one\n");
}

/// Commands that run while a daemon does are kept distinct from it.
#[test]
fn command_during_a_daemon_owns_its_own_changes_only() {
    let case = CliFixture::empty();
    start_daemon(&case, "true", "echo late > late");
    let ran = exec_shell(
        &case,
        "echo mine > mine; : > ../go; while [ ! -e ../done ]; do sleep 0.02; done",
    );
    assert_eq!(ran.code, 0, "{ran:?}");

    let entries = read_log(&case)["entries"].clone();
    assert_eq!(paths_of(&entries[1]), [traced("mine")]);
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/mine").exists() && case.path("p/late").exists(), "{ran:?}");
}
