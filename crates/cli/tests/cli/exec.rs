//! `turnstone exec`: any command is a turn; streams, signals and the exit code are its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::case::{Case, Ran, read};

pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the program in `p`, where commands are found.
pub(crate) fn run(case: &Case, args: &[&str]) -> Ran {
    run_in(case, "p", args)
}

pub(crate) fn run_in(case: &Case, place: &str, args: &[&str]) -> Ran {
    case.ran(case.command(place, args).env("PATH", PATH))
}

/// A shell script as a turn.
pub(crate) fn shell(case: &Case, script: &str) -> Ran {
    run(case, &["exec", "--", "sh", "-c", script])
}

/// Starts the program and does not wait for it.
#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
pub(crate) fn start(case: &Case, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_turnstone"))
        .env_clear()
        .env("PATH", PATH)
        .env("TZ", "UTC")
        .env("USER", "ada")
        .env("HOME", case.place("home"))
        .env("TURNSTONE_DATA", case.data())
        .current_dir(case.place("p"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

/// Waits until a file is there.
pub(crate) fn await_file(path: &Path) {
    for _ in 0..1200 {
        if path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{} never came", path.display());
}

/// Waits for a line that a command writes, and returns it: a file is there before it has content.
pub(crate) fn await_line(path: &Path) -> String {
    for _ in 0..2_400 {
        let text = fs_err::read_to_string(path).unwrap_or_default();
        if let Some(line) = text.strip_suffix('\n') {
            return line.to_owned();
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{} never got its line", path.display());
}

/// The timeline of the newest session.
pub(crate) fn log(case: &Case) -> Value {
    let ran = run(case, &["log", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

/// The tool call of the newest session.
fn call(case: &Case) -> Value {
    let session = log(case)["session"].as_str().expect("a session").to_owned();
    let shown = run(case, &["session", "show", &session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    let messages = shown["messages"].as_array().expect("messages").clone();
    messages[1]["parts"][0].clone()
}

#[test]
fn output_input_and_exit_code_are_the_commands_own_r33() {
    let case = Case::empty();
    let ran = shell(&case, "echo out; echo err >&2; exit 3");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (3, "out\n", "err\n"));
    assert_eq!(shell(&case, "kill -TERM $$").code, 143);
    assert_eq!(run(&case, &["exec", "--", "no-such-command"]).code, 127);
    assert_eq!(run(&case, &["exec", "--", "/etc/passwd"]).code, 126);
    assert_eq!(run(&case, &["exec", "--session", "zz", "--", "true"]).code, 125);
    let ran = run(&case, &["exec", "--data", "/dev/null/x", "--", "true"]);
    assert_eq!((ran.code, ran.err.starts_with("error: ")), (125, true), "{ran:?}");
    let mut cat = case.command("p", &["exec", "cat"]);
    let ran = case.ran(cat.env("PATH", PATH).write_stdin("through\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "through\n"));
}

#[test]
fn a_command_is_a_turn_of_a_session_and_a_project() {
    let case = Case::empty();
    shell(&case, "echo hello; echo x > new");
    let log = log(&case);
    assert_eq!(log["title"], "sh -c 'echo hello; echo x > new'");
    assert_eq!(log["entries"][0]["prompt"], log["title"]);
    assert_eq!(log["entries"][0]["state"], "completed");
    let file = &log["entries"][0]["files"][0];
    assert_eq!((&file["path"], &file["status"]), (&"new".into(), &"A".into()));
    assert_eq!((&file["evidence"], &file["additions"]), (&"window".into(), &1.into()));
    let call = call(&case);
    assert_eq!((&call["tool"], &call["state"]["status"]), (&"bash".into(), &"completed".into()));
    assert_eq!(call["state"]["output"], "hello\n");
    assert_eq!(call["state"]["metadata"]["exit"], 0);
    assert!(call["state"]["metadata"]["group"]["pgid"].is_i64(), "{call}");

    // The session goes on where it is told to, and only in its own directory.
    let session = log["session"].as_str().expect("a session");
    let more = ["exec", "--session", session, "--", "sh", "-c", "echo y > other"];
    assert_eq!(run(&case, &more).code, 0);
    assert_eq!(self::log(&case)["entries"].as_array().map(Vec::len), Some(2));
    let ran = run_in(&case, "q", &more);
    assert_eq!(ran.code, 125);
    assert!(ran.err.contains("belongs to ~/p, not to this directory"), "{}", ran.err);
}

#[test]
fn long_output_is_kept_at_both_ends_and_the_middle_in_a_file_r33() {
    let case = Case::empty();
    let ran = shell(&case, "seq 1 100000");
    assert_eq!(ran.out.lines().count(), 100_000, "the reader gets all of it");
    let state = call(&case)["state"].clone();
    let output = state["output"].as_str().expect("output");
    assert!(output.starts_with("1\n2\n") && output.ends_with("99999\n100000\n"));
    assert!(output.contains("bytes left out") && output.len() < 140_000, "{}", output.len());
    let path = state["metadata"]["outputPath"].as_str().expect("a path");
    let spill = fs_err::read(case.place(path.trim_start_matches("~/")));
    assert_eq!(spill.expect("readable").len() + 2 * (64 << 10), ran.out.len());
}

#[test]
fn a_killed_exec_takes_its_command_along_and_what_it_changed_is_known_r32() {
    let case = Case::empty();
    fs_err::write(case.place("p/kept"), "kept\n").expect("written");
    let script = "echo half > draft; echo $$ > ../pid; sleep 60; echo rest >> draft";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    let pid = await_line(&case.place("pid"));
    child.kill().expect("killed");
    child.wait().expect("reaped");

    let log = log(&case);

    assert_eq!(log["entries"][0]["state"], "interrupted", "{log}");
    let file = &log["entries"][0]["files"][0];
    assert_eq!((&file["path"], &file["evidence"]), (&"draft".into(), &"recovered".into()));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "nobody writes any more");
    assert_eq!(call(&case)["state"]["status"], "error");
    let ran = run(&case, &["undo"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "removed    draft  (window)\n"));
    assert!(!case.place("p/draft").exists());
    assert_eq!(read(&case.place("p/kept")), "kept\n");
}

#[test]
fn signals_are_the_commands_business_r33() {
    let case = Case::empty();
    let script = "trap 'echo term > got; exit 7' TERM; touch ../ready; while :; do sleep 0.1; done";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.place("ready"));
    let pid = child.id().to_string();
    assert_eq!(shell_only(&["kill", "-TERM", &pid]), 0);
    assert_eq!(child.wait().expect("ends").code(), Some(7));
    assert_eq!(read(&case.place("p/got")), "term\n");
    assert_eq!(log(&case)["entries"][0]["files"][0]["path"], "got");
}

#[expect(clippy::disallowed_methods, reason = "a program beside ours")]
fn shell_only(words: &[&str]) -> i32 {
    let status = Command::new(words[0]).args(&words[1..]).status().expect("runs");
    status.code().expect("a code")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a terminal comes from a program beside ours")]
fn on_a_terminal_the_command_has_one_of_its_own_r33() {
    let case = Case::empty();
    if !Path::new("/usr/bin/script").exists() {
        return;
    }
    let line = format!(
        "{} exec -- sh -c '[ -t 0 ] && [ -t 1 ] && tty > terminal; exit 5'",
        env!("CARGO_BIN_EXE_turnstone")
    );
    let output = Command::new("/usr/bin/script")
        .args(["-qefc", &line, "/dev/null"])
        .env_clear()
        .env("PATH", PATH)
        .env("SHELL", "/bin/sh")
        .env("HOME", case.place("home"))
        .env("TURNSTONE_DATA", case.data())
        .current_dir(case.place("p"))
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(read(&case.place("p/terminal")).starts_with("/dev/pts/"));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("1 file changed; `turnstone undo` takes that back"), "{shown}");
}

#[test]
fn a_refused_root_runs_and_says_that_there_is_no_undo_r6() {
    let case = Case::empty();
    fs_err::create_dir_all(case.place("home")).expect("made");
    let ran = run_in(&case, "home", &["exec", "--", "sh", "-c", "echo x > new; exit 2"]);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "turnstone: no undo here: ~/home is not captured, the command runs anyway\n"
    );
    let ran = run_in(&case, "home", &["status"]);
    assert!(ran.out.contains("no undo here"), "{}", ran.out);
    assert_eq!(run_in(&case, "home", &["undo"]).code, 0);
    assert_eq!(read(&case.place("home/new")), "x\n");
}

#[test]
fn the_password_of_the_server_is_not_passed_on() {
    let case = Case::empty();
    let mut command = case.command("p", &["exec", "--", "/usr/bin/env"]);
    command.env("PATH", PATH).env("MINE", "kept");
    for name in ["TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"] {
        command.env(name, "hunter2");
    }
    let ran = case.ran(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("MINE=kept") && !ran.out.contains("hunter2"), "{}", ran.out);
}

#[test]
fn a_command_inside_a_command_belongs_to_it_r3() {
    let case = Case::empty();
    let inner = format!(
        "echo outer > a; {} exec -- sh -c 'echo inner > b'",
        env!("CARGO_BIN_EXE_turnstone")
    );
    let ran = shell(&case, &inner);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "an inner window is no rival");
    let ran = run(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.place("p/a").exists() && !case.place("p/b").exists(), "{ran:?}");
}

#[test]
fn killed_at_any_moment_undo_returns_the_former_bytes_r32() {
    let case = Case::empty();
    fs_err::write(case.place("p/f"), "1\n2\n3\n").expect("written");
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo x$n >> f; echo $n > new$n; sleep 0.01; done";
    for round in 0..8 {
        let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
        std::thread::sleep(Duration::from_millis(40 * round));
        child.kill().expect("killed, or over");
        child.wait().expect("reaped");
        // 1: it had not come to its turn yet, and the one before is undone.
        let ran = run(&case, &["undo"]);
        assert!([0, 1].contains(&ran.code), "round {round}: {ran:?}");
        let names = fs_err::read_dir(case.place("p")).expect("listed");
        assert_eq!(names.count(), 2, "round {round}: f and src are left: {ran:?}");
        assert_eq!(read(&case.place("p/f")), "1\n2\n3\n", "round {round}: {ran:?}");
    }
    assert_eq!(run(&case, &["doctor"]).code, 0);
}

/// R27, R45: the turn is another process's; it is told, ends its command and says how the turn went.
#[test]
fn a_turn_of_another_process_is_aborted_and_can_be_undone_r45() {
    let case = Case::empty();
    // It wants to go on after the first request to end.
    let script = "trap 'echo told > told' TERM; echo x > new; touch ../ready; \
                  while [ ! -e ../enough ]; do sleep 0.05; done; exit 0";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.place("ready"));
    let session = log(&case)["session"].as_str().expect("a session").to_owned();

    let mut abort = start(&case, &["session", "abort", &session]);
    await_file(&case.place("p/told"));
    fs_err::write(case.place("enough"), "").expect("written");

    assert_eq!(abort.wait().expect("ends").code(), Some(0));
    child.wait().expect("ends");
    let log = log(&case);
    assert_eq!(log["entries"][0]["state"], "aborted", "whatever its command says: {log}");
    assert_eq!(run(&case, &["undo"]).code, 0);
    assert!(!case.place("p/new").exists() && !case.place("p/told").exists());
    let ran = run(&case, &["session", "abort", &session, "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &told["turn"]), (0, &Value::Null), "nothing runs: {ran:?}");
}

#[test]
fn a_command_that_does_not_want_to_end_is_ended_r45() {
    let case = Case::empty();
    let script = "trap '' TERM; echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.place("ready"));
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    let ran = run(&case, &["session", "abort", &session]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("is aborted"), "{}", ran.err);
    assert_eq!(child.wait().expect("ends").code(), Some(137));
    assert_eq!(run(&case, &["undo"]).code, 0);
    assert!(!case.place("p/new").exists());
}
