//! `turnstone exec` with a trace: whose each change is, when others write in the same directory.
//!
//! These tests fail where no command can be traced: passing as an untraced window would prove nothing.

use std::path::Path;
use std::process::Child;

use serde_json::{Value, json};

use crate::exec::{await_file, await_line, exec_shell, read_log, run_program, start_program};
use crate::fixture::{CliFixture, ProgramOutput};
use crate::serve_shell::TestServer;
use crate::undo_modes::{read_text, write_file};

/// Runs `before`, waits until something else has happened, then runs `after`.
fn interrupted_script(name: &str, before: &str, after: &str) -> String {
    format!(
        "{before}; touch ../{name}.started; while [ ! -e ../{name}.go ]; do sleep 0.02; done; {after}"
    )
}

/// A command that has done its first half.
pub(crate) struct HalfDone {
    name: &'static str,
    command: Child,
}

impl HalfDone {
    pub(crate) fn start(case: &CliFixture, name: &'static str, before: &str, after: &str) -> Self {
        let script = interrupted_script(name, before, after);
        let command = start_program(case, &["exec", "--new", "--", "sh", "-c", &script]);
        await_file(&case.path(&format!("{name}.started")));
        Self { name, command }
    }

    pub(crate) fn finish(mut self, case: &CliFixture) {
        write_file(case, &format!("../{}.go", self.name), "");
        assert!(self.command.wait().expect("ends").success());
    }
}

fn files_of(turn: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let files = turn["files"].as_array().expect("files");
    files.iter().map(|file| (text(&file["path"]), text(&file["evidence"]))).collect()
}

/// The paths and the evidence of the newest turn.
fn newest_files(case: &CliFixture) -> Vec<(String, String)> {
    files_of(read_log(case)["entries"].as_array().expect("entries").last().expect("a turn"))
}

fn newest_trace(case: &CliFixture) -> Value {
    let log = read_log(case);
    log["entries"].as_array().expect("entries").last().expect("a turn")["traces"][0].clone()
}

fn traced(paths: &[&str]) -> Vec<(String, String)> {
    paths.iter().map(|path| ((*path).to_owned(), "traced".to_owned())).collect()
}

fn undo(case: &CliFixture) -> ProgramOutput {
    run_program(case, &["undo"])
}

/// Proves R2.
#[test]
fn save_of_a_person_during_a_traced_command_survives_undo_and_is_listed() {
    let case = CliFixture::empty();
    write_file(&case, "mine", "one\n");
    write_file(&case, "theirs", "one\n");
    let half = HalfDone::start(&case, "c", "echo two > mine", "echo new > made");
    write_file(&case, "theirs", "by a person\n");
    write_file(&case, "notes", "by a person\n");
    half.finish(&case);

    assert_eq!(newest_files(&case), traced(&["made", "mine"]));
    assert_eq!(newest_trace(&case)["others"]["paths"], json!(["notes", "theirs"]));
    let ran = undo(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read_text(&case, "mine"), "one\n");
    assert!(!case.path("p/made").exists());
    assert_eq!(read_text(&case, "theirs"), "by a person\n");
    assert_eq!(read_text(&case, "notes"), "by a person\n");
    let words = "2 files changed by others during this command were left alone";
    assert!(ran.err.contains(words), "{ran:?}");
}

/// Proves R3.
#[test]
fn file_that_a_person_saved_before_the_command_wrote_it_is_left_alone() {
    let case = CliFixture::empty();
    write_file(&case, "both", "one\n");
    write_file(&case, "mine", "one\n");
    let half = HalfDone::start(&case, "c", "echo two > mine", "echo three >> both");
    write_file(&case, "both", "by a person\n");
    half.finish(&case);

    assert_eq!(newest_trace(&case)["shared"], json!(["both"]));
    let ran = undo(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(read_text(&case, "mine"), "one\n");
    assert_eq!(read_text(&case, "both"), "by a person\nthree\n");
    assert!(ran.out.contains("also changed by others while the command ran"), "{ran:?}");
}

/// Proves R3.
#[test]
fn two_traced_commands_in_one_directory_are_distinguished() {
    let case = CliFixture::empty();
    for name in ["one", "two", "both"] {
        write_file(&case, name, "old\n");
    }
    let first = HalfDone::start(&case, "a", "echo a > one", "echo a >> both; echo a > a-made");
    let second = HalfDone::start(&case, "b", "echo b > two", "echo b >> both; echo b > b-made");
    second.finish(&case);
    first.finish(&case);
    let log: Value = serde_json::from_str(&run_program(&case, &["session", "list", "--json"]).out)
        .expect("JSON");
    let sessions = log.as_array().or_else(|| log["sessions"].as_array()).expect("sessions").clone();
    assert_eq!(sessions.len(), 2, "{log}");

    // The newest turn that has ended is that of the first command.
    let ran = undo(&case);
    assert_eq!(read_text(&case, "both"), "old\nb\na\n", "both wrote it: {ran:?}");
    let state = ["one", "two"].map(|name| read_text(&case, name));
    let untouched = state.iter().filter(|text| *text != "old\n").count();
    assert_eq!(untouched, 1, "only one command is undone: {state:?} {ran:?}");
    assert!(ran.out.contains("contended") && ran.out.contains("both"), "{ran:?}");
    assert_eq!(case.path("p/a-made").exists(), state[0] != "old\n", "{ran:?}");
    assert_eq!(case.path("p/b-made").exists(), state[1] != "old\n", "{ran:?}");
}

/// Proves R1, R2.
#[test]
fn save_in_progress_when_a_traced_command_starts_is_left_alone() {
    let case = CliFixture::empty();
    write_file(&case, "saved", "old text\n");
    exec_shell(&case, "true");
    // Half a save: nothing tells it from a file that is complete.
    write_file(&case, "saved", "half of the ");
    let half = HalfDone::start(&case, "c", "echo new > made", "true");
    write_file(&case, "saved", "half of the new text\n");
    half.finish(&case);

    assert_eq!(newest_files(&case), traced(&["made"]));
    let ran = undo(&case);

    assert_eq!((ran.code, read_text(&case, "saved")), (0, "half of the new text\n".to_owned()));
    assert!(!case.path("p/made").exists());
}

/// Proves R2.
#[test]
fn renamed_directory_is_undone_and_files_that_others_put_there_stay() {
    let case = CliFixture::empty();
    fs_err::create_dir(case.path("p/old")).expect("made");
    for name in ["old/a", "old/b"] {
        write_file(&case, name, format!("{name}\n"));
    }
    let half = HalfDone::start(&case, "c", "mv old new", "echo more >> new/b");
    write_file(&case, "new/theirs", "by a person\n");
    half.finish(&case);

    assert_eq!(newest_files(&case), traced(&["new/a", "new/b", "old/a", "old/b"]));
    undo(&case);

    assert_eq!(read_text(&case, "old/a"), "old/a\n");
    assert_eq!(read_text(&case, "old/b"), "old/b\n");
    assert!(!case.path("p/new/a").exists() && !case.path("p/new/b").exists());
    assert_eq!(read_text(&case, "new/theirs"), "by a person\n");
}

/// Proves R2.
#[test]
fn usual_ways_to_save_a_file_are_traced() {
    let case = CliFixture::empty();
    for name in ["sed", "copied", "moved", "cut", "mode", "gone"] {
        write_file(&case, name, "one\n");
    }
    let script = "ln mode backup; sed -i s/one/two/ sed; cp sed copied; mv sed moved; \
                  : > cut; chmod 700 mode; rm gone; mkdir -p d/e; ln -s moved d/e/link; \
                  (cd d && echo in > e/file); rm backup; cat /dev/null";
    let ran = exec_shell(&case, script);
    assert_eq!(ran.code, 0, "{ran:?}");

    let paths = ["copied", "cut", "d/e/file", "d/e/link", "gone", "mode", "moved", "sed"];
    assert_eq!(newest_files(&case), traced(&paths));
    assert_eq!(newest_trace(&case), json!({}), "nobody else wrote: {:?}", newest_trace(&case));
    let ran = undo(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    for name in ["sed", "copied", "moved", "cut", "mode", "gone"] {
        assert_eq!(read_text(&case, name), "one\n", "{name}");
    }
    assert!(!case.path("p/d").exists());
}

/// Proves R2.
#[test]
fn no_trace_takes_every_change_for_the_commands() {
    let case = CliFixture::empty();
    write_file(&case, "theirs", "one\n");
    let script = interrupted_script("c", "true", "echo new > made");
    let args = ["exec", "--no-trace", "--", "sh", "-c", &script];
    let mut command = start_program(&case, &args);
    await_file(&case.path("c.started"));
    write_file(&case, "theirs", "by a person\n");
    write_file(&case, "../c.go", "");
    assert!(command.wait().expect("ends").success());

    let window = |path: &str| (path.to_owned(), "window".to_owned());
    assert_eq!(newest_files(&case), [window("made"), window("theirs")]);
    undo(&case);

    assert_eq!(read_text(&case, "theirs"), "one\n");
}

#[test]
fn tracing_can_be_switched_off_in_the_configuration() {
    let case = CliFixture::empty();
    let state = |case: &CliFixture| {
        let status = run_program(case, &["status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).expect("JSON");
        status["tracing"]["state"].as_str().expect("a state").to_owned()
    };
    assert_eq!(state(&case), "on");
    fs_err::create_dir_all(case.path("home/.config/turnstone")).expect("made");
    let file = case.path("home/.config/turnstone/config.json");
    fs_err::write(file, r#"{"exec": {"trace": false}}"#).expect("written");

    assert_eq!(state(&case), "disabled");
    exec_shell(&case, "echo new > made");
    assert_eq!(newest_files(&case), [("made".to_owned(), "window".to_owned())]);
}

/// Proves R32.
#[test]
fn changes_of_a_traced_command_whose_exec_was_killed_are_traced() {
    let case = CliFixture::empty();
    write_file(&case, "theirs", "one\n");
    let script = "echo half > draft; echo $$ > ../pid; sleep 60; echo rest >> draft";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    let pid = await_line(&case.path("pid"));
    write_file(&case, "theirs", "by a person\n");
    child.kill().expect("killed");
    child.wait().expect("reaped");

    assert_eq!(newest_files(&case), traced(&["draft"]));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "nobody writes any more");
    assert_eq!(undo(&case).code, 0);
    assert!(!case.path("p/draft").exists());
    assert_eq!(read_text(&case, "theirs"), "by a person\n");
    let traces = fs_err::read_dir(case.data_dir().join("trace")).expect("a folder");
    assert_eq!(traces.count(), 0, "the trace is removed with the end of its change set");
}

/// Proves R2: what was traced is certain, so `--named-only` undoes it as well.
#[test]
fn undo_of_certain_changes_includes_traced_ones() {
    let case = CliFixture::empty();
    write_file(&case, "f", "one\n");
    exec_shell(&case, "echo two > f");

    let ran = run_program(&case, &["undo", "--named-only"]);

    assert_eq!((ran.code, read_text(&case, "f")), (0, "one\n".to_owned()), "{ran:?}");
}

/// Proves R7.
#[test]
fn ignored_files_that_a_traced_command_wrote_are_named() {
    let case = CliFixture::empty();
    let git = "git init -q . && printf 'secret\\nout/\\n' > .gitignore";
    exec_shell(&case, git);
    exec_shell(&case, "echo x > secret; mkdir out; echo x > out/deep; echo y > seen");

    assert_eq!(newest_trace(&case)["uncovered"]["paths"], json!(["out", "secret"]));
    let ran = undo(&case);

    assert!(ran.err.contains("out, secret; what the command wrote there"), "{ran:?}");
    assert!(!case.path("p/seen").exists());
}

/// A nested command cannot be traced again: its own window claims what changed in it.
#[test]
fn nested_command_in_a_traced_one_runs_untraced_and_says_why() {
    let case = CliFixture::empty();
    let program = env!("CARGO_BIN_EXE_turnstone");
    let ran =
        exec_shell(&case, &format!("echo out > outer; {program} exec -- sh -c 'echo in > inner'"));
    assert_eq!(ran.code, 0, "{ran:?}");

    assert_eq!(undo(&case).code, 0);
    assert!(!case.path("p/outer").exists() && !case.path("p/inner").exists());
}

/// Proves R2.
#[test]
fn shell_command_over_http_is_traced() {
    let case = CliFixture::empty();
    write_file(&case, "mine", "one\n");
    write_file(&case, "theirs", "one\n");
    let served = TestServer::start(&case);
    let session = served.create_session();
    let script = interrupted_script("h", "echo two > mine", "true");
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| served.run_shell(&session, &script));
        await_file(&case.path("h.started"));
        write_file(&case, "theirs", "by a person\n");
        write_file(&case, "../h.go", "");
        let (code, answer) = ran.join().expect("ends");
        assert_eq!(code, 200, "{answer}");
    });

    let timeline = format!("/turnstone/session/{session}/timeline");
    let (_, timeline) = served.request("GET", &timeline, &Value::Null);
    assert_eq!(files_of(&timeline[0]), traced(&["mine"]));
    assert_eq!(timeline[0]["traces"][0]["others"], json!(["theirs"]));
    assert_eq!(undo(&case).code, 0);
    assert_eq!(
        (read_text(&case, "mine"), read_text(&case, "theirs")),
        ("one\n".into(), "by a person\n".into())
    );
}
