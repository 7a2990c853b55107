//! `turnstone exec`: any command is a turn; streams, signals and the exit code are its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::project_worktree::run_git;

pub(crate) const TEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the program in `p`, where commands are found.
pub(crate) fn run_program(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    run_program_in(case, "p", args)
}

pub(crate) fn run_program_in(case: &CliFixture, place: &str, args: &[&str]) -> ProgramOutput {
    case.run_command(case.command(place, args).env("PATH", TEST_PATH))
}

/// A shell script as a turn.
pub(crate) fn exec_shell(case: &CliFixture, script: &str) -> ProgramOutput {
    run_program(case, &["exec", "--", "sh", "-c", script])
}

/// A shell script as a turn whose changes cannot be distinguished from those of others.
pub(crate) fn exec_untraced(case: &CliFixture, script: &str) -> ProgramOutput {
    run_program(case, &["exec", "--no-trace", "--", "sh", "-c", script])
}

/// Starts the program and does not wait for it.
pub(crate) fn start_program(case: &CliFixture, args: &[&str]) -> Child {
    start_program_in(case, "p", args)
}

#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
pub(crate) fn start_program_in(case: &CliFixture, place: &str, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_turnstone"))
        .env_clear()
        .env("PATH", TEST_PATH)
        .env("TZ", "UTC")
        .env("USER", "ada")
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path(place))
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
pub(crate) fn read_log(case: &CliFixture) -> Value {
    let ran = run_program(case, &["log", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

/// The tool call of the newest session.
fn read_tool_call(case: &CliFixture) -> Value {
    let session = read_log(case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(case, &["session", "show", &session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    let messages = shown["messages"].as_array().expect("messages").clone();
    messages[1]["parts"][0].clone()
}

/// Proves R33.
#[test]
fn exec_passes_streams_and_exit_code_through() {
    let case = CliFixture::empty();
    let ran = exec_shell(&case, "echo out; echo err >&2; exit 3");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (3, "out\n", "err\n"));
    assert_eq!(exec_shell(&case, "kill -TERM $$").code, 143);
    assert_eq!(run_program(&case, &["exec", "--", "no-such-command"]).code, 127);
    assert_eq!(run_program(&case, &["exec", "--", "/etc/passwd"]).code, 126);
    assert_eq!(run_program(&case, &["exec", "--session", "zz", "--", "true"]).code, 125);
    let ran = run_program(&case, &["exec", "--data", "/dev/null/x", "--", "true"]);
    assert_eq!((ran.code, ran.err.starts_with("error: ")), (125, true), "{ran:?}");
    let mut cat = case.command("p", &["exec", "cat"]);
    let ran = case.run_command(cat.env("PATH", TEST_PATH).write_stdin("through\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "through\n"));
}

fn count_sessions(case: &CliFixture) -> usize {
    let listed = run_program(case, &["session", "list", "--all", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    listed["sessions"].as_array().expect("a list").len()
}

/// Proves R33.
#[test]
fn command_that_cannot_start_leaves_no_session() {
    let case = CliFixture::empty();
    let script = case.path("p/script");
    // The interpreter is a directory, which only the start itself finds out.
    fs_err::write(&script, "#!/usr\n").expect("written");
    assert_eq!(run_other_program(&["chmod", "+x", &script.to_string_lossy()]), 0);
    for (command, code) in [("no-such-command", 127), ("/etc/passwd", 126), ("./script", 126)] {
        let ran = run_program(&case, &["exec", "--", command]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.starts_with(&format!("turnstone: {command}")), "{ran:?}");
        assert_eq!(count_sessions(&case), 0, "{command}");
    }
    exec_shell(&case, "true");
    assert_eq!(run_program(&case, &["exec", "--", "no-such-command"]).code, 127);
    assert_eq!(read_log(&case)["entries"].as_array().map(Vec::len), Some(1), "and no turn");
}

#[test]
fn unknown_option_before_the_command_is_an_error() {
    let case = CliFixture::empty();
    for args in [&["exec", "--sesion", "x", "--", "true"][..], &["exec", "-x", "true"]] {
        let ran = run_program(&case, args);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("unexpected argument '-"), "{}", ran.err);
    }
    assert_eq!(count_sessions(&case), 0);
    assert_eq!(run_program(&case, &["exec", "--", "-x"]).code, 127, "a command of that name");
    assert_eq!(run_program(&case, &["exec", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(run_program(&case, &["exec", "sh", "-c", "exit $#", "--", "--new", "x"]).code, 2);
}

#[test]
fn exec_records_a_turn_in_session_and_project() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo hello; echo x > new");
    let log = read_log(&case);
    assert_eq!(log["title"], "sh -c 'echo hello; echo x > new'");
    assert_eq!(log["entries"][0]["prompt"], log["title"]);
    assert_eq!(log["entries"][0]["state"], "completed");
    let file = &log["entries"][0]["files"][0];
    assert_eq!((&file["path"], &file["status"]), (&"new".into(), &"A".into()));
    assert_eq!((&file["evidence"], &file["additions"]), (&"traced".into(), &1.into()));
    let call = read_tool_call(&case);
    assert_eq!((&call["tool"], &call["state"]["status"]), (&"bash".into(), &"completed".into()));
    assert_eq!(call["state"]["output"], "hello\n");
    assert_eq!(call["state"]["metadata"]["exit"], 0);
    assert!(call["state"]["metadata"]["group"]["pgid"].is_i64(), "{call}");

    // The session continues where the option says, and only in its own directory.
    let session = log["session"].as_str().expect("a session");
    let more = ["exec", "--session", session, "--", "sh", "-c", "echo y > other"];
    assert_eq!(run_program(&case, &more).code, 0);
    assert_eq!(self::read_log(&case)["entries"].as_array().map(Vec::len), Some(2));
    let ran = run_program_in(&case, "q", &more);
    assert_eq!(ran.code, 125);
    assert!(ran.err.contains("belongs to ~/p, not to this directory"), "{}", ran.err);
}

/// Proves R33.
#[test]
fn long_output_keeps_both_ends_and_spills_the_middle() {
    let case = CliFixture::empty();
    let ran = exec_shell(&case, "seq 1 100000");
    assert_eq!(ran.out.lines().count(), 100_000, "the reader gets all of it");
    let state = read_tool_call(&case)["state"].clone();
    let output = state["output"].as_str().expect("output");
    assert!(output.starts_with("1\n2\n") && output.ends_with("99999\n100000\n"));
    assert!(output.contains("bytes left out") && output.len() < 140_000, "{}", output.len());
    let path = state["metadata"]["outputPath"].as_str().expect("a path");
    let spill = fs_err::read(case.path(path.trim_start_matches("~/")));
    assert_eq!(spill.expect("readable").len() + 2 * (64 << 10), ran.out.len());
}

/// Proves R32.
#[test]
fn killing_exec_ends_command_and_recovers_changes() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/kept"), "kept\n").expect("written");
    let script = "echo half > draft; echo $$ > ../pid; sleep 60; echo rest >> draft";
    let args = ["exec", "--no-trace", "--", "sh", "-c", script];
    let mut child = start_program(&case, &args);
    let pid = await_line(&case.path("pid"));
    child.kill().expect("killed");
    child.wait().expect("reaped");

    let log = read_log(&case);

    assert_eq!(log["entries"][0]["state"], "interrupted", "{log}");
    let file = &log["entries"][0]["files"][0];
    assert_eq!((&file["path"], &file["evidence"]), (&"draft".into(), &"recovered".into()));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "nobody writes any more");
    assert_eq!(read_tool_call(&case)["state"]["status"], "error");
    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "removed    draft\n"));
    assert!(!case.path("p/draft").exists());
    assert_eq!(read_file(&case.path("p/kept")), "kept\n");
}

/// Proves R33.
#[test]
fn exec_forwards_signals_to_its_command() {
    let case = CliFixture::empty();
    let script = "trap 'echo term > got; exit 7' TERM; touch ../ready; while :; do sleep 0.1; done";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("ready"));
    let pid = child.id().to_string();
    assert_eq!(run_other_program(&["kill", "-TERM", &pid]), 0);
    assert_eq!(child.wait().expect("ends").code(), Some(7));
    assert_eq!(read_file(&case.path("p/got")), "term\n");
    assert_eq!(read_log(&case)["entries"][0]["files"][0]["path"], "got");
}

#[expect(clippy::disallowed_methods, reason = "a second program")]
fn run_other_program(words: &[&str]) -> i32 {
    let status = Command::new(words[0]).args(&words[1..]).status().expect("runs");
    status.code().expect("a code")
}

/// Proves R33.
#[test]
#[expect(clippy::disallowed_methods, reason = "a terminal comes from a second program")]
fn exec_gives_its_command_a_pty() {
    let case = CliFixture::empty();
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
        .env("PATH", TEST_PATH)
        .env("SHELL", "/bin/sh")
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path("p"))
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(read_file(&case.path("p/terminal")).starts_with("/dev/pts/"));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("1 file changed; `turnstone undo` undoes this"), "{shown}");
}

/// Proves R6.
#[test]
fn exec_in_uncaptured_directory_warns_of_no_undo() {
    let case = CliFixture::empty();
    fs_err::create_dir_all(case.path("home")).expect("made");
    let ran = run_program_in(&case, "home", &["exec", "--", "sh", "-c", "echo x > new; exit 2"]);
    assert_eq!(ran.code, 2);
    let (note, hint) = ran.err.split_once('\n').expect("two lines");
    assert_eq!(note, "turnstone: undo is not available in ~/home; the command runs anyway");
    assert!(hint.contains("use `turnstone snapshot track --force`"), "{}", ran.err);
    let ran = run_program_in(&case, "home", &["status"]);
    assert!(ran.out.contains("not available"), "{}", ran.out);
    assert!(ran.err.contains("use `turnstone snapshot track --force`"), "{}", ran.err);
    assert_eq!(run_program_in(&case, "home", &["undo"]).code, 0);
    assert_eq!(read_file(&case.path("home/new")), "x\n");

    // What the message says works.
    assert_eq!(run_program_in(&case, "home", &["snapshot", "track", "--force"]).code, 0);
    let ran = run_program_in(&case, "home", &["exec", "--", "sh", "-c", "echo y > more"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(run_program_in(&case, "home", &["undo"]).code, 0);
    assert!(!case.path("home/more").exists() && case.path("home/new").exists());
}

/// Proves R33: a process in the background does not outlive its command, and that is said.
#[test]
fn background_processes_are_ended_and_reported() {
    let case = CliFixture::empty();
    let ran = exec_shell(
        &case,
        "sh -c 'echo $$ > ../pid; exec sleep 600' & while [ ! -s ../pid ]; do :; done",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("turnstone: 1 background process ended with the command"), "{ran:?}");
    assert!(ran.err.contains("`setsid`"), "{ran:?}");
    let pid = await_line(&case.path("pid"));
    let stat = fs_err::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    assert!(stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z ")), "it does not run");
    let help = run_program(&case, &["exec", "--help"]);
    let words: Vec<&str> = help.out.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("background are ended when it exits"), "{}", help.out);
}

#[test]
fn the_password_of_the_server_is_not_passed_on() {
    let case = CliFixture::empty();
    let mut command = case.command("p", &["exec", "--", "/usr/bin/env"]);
    command.env("PATH", TEST_PATH).env("MINE", "kept");
    for name in ["TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"] {
        command.env(name, "hunter2");
    }
    let ran = case.run_command(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("MINE=kept") && !ran.out.contains("hunter2"), "{}", ran.out);
}

/// Proves R3.
#[test]
fn nested_exec_is_undone_with_its_parent() {
    let case = CliFixture::empty();
    let inner = format!(
        "echo outer > a; {} exec -- sh -c 'echo inner > b'",
        env!("CARGO_BIN_EXE_turnstone")
    );
    let ran = exec_shell(&case, &inner);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "an inner window is no rival");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/a").exists() && !case.path("p/b").exists(), "{ran:?}");
}

/// Proves R32.
#[test]
fn undo_restores_bytes_after_kill_at_any_moment() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/f"), "1\n2\n3\n").expect("written");
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo x$n >> f; echo $n > new$n; sleep 0.01; done";
    for round in 0..8 {
        let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
        std::thread::sleep(Duration::from_millis(40 * round));
        child.kill().expect("killed, or over");
        child.wait().expect("reaped");
        // 1: it had not come to its turn yet, and the one before is undone.
        let ran = run_program(&case, &["undo"]);
        assert!([0, 1].contains(&ran.code), "round {round}: {ran:?}");
        let names = fs_err::read_dir(case.path("p")).expect("listed");
        assert_eq!(names.count(), 2, "round {round}: f and src are left: {ran:?}");
        assert_eq!(read_file(&case.path("p/f")), "1\n2\n3\n", "round {round}: {ran:?}");
    }
    assert_eq!(run_program(&case, &["doctor"]).code, 0);
}

/// R27, R45: the turn is another process's; it receives the abort, ends its command and reports the outcome.
#[test]
fn abort_from_another_process_ends_turn_and_allows_undo() {
    let case = CliFixture::empty();
    // It wants to go on after the first request to end.
    let script = "trap 'echo told > told' TERM; echo x > new; touch ../ready; \
                  while [ ! -e ../enough ]; do sleep 0.05; done; exit 0";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("ready"));
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();

    let mut abort = start_program(&case, &["session", "abort", &session]);
    await_file(&case.path("p/told"));
    fs_err::write(case.path("enough"), "").expect("written");

    assert_eq!(abort.wait().expect("ends").code(), Some(0));
    child.wait().expect("ends");
    let log = read_log(&case);
    assert_eq!(log["entries"][0]["state"], "aborted", "whatever its command says: {log}");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert!(!case.path("p/new").exists() && !case.path("p/told").exists());
    let ran = run_program(&case, &["session", "abort", &session, "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &report["turn"]), (0, &Value::Null), "nothing runs: {ran:?}");
}

/// Proves R45.
#[test]
fn abort_kills_command_that_ignores_sigterm() {
    let case = CliFixture::empty();
    let script = "trap '' TERM; echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("ready"));
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let ran = run_program(&case, &["session", "abort", &session]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("has ended: aborted"), "{}", ran.err);
    assert_eq!(child.wait().expect("ends").code(), Some(137));
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert!(!case.path("p/new").exists());
}

#[test]
fn command_that_cannot_start_is_a_json_error_and_leaves_no_worktree() {
    let case = CliFixture::empty();
    run_git(&case.path("p"), &["init", "-q"]);
    run_git(&case.path("p"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let ran = run_program(&case, &["--json", "exec", "--worktree=wx", "--", "no-such-program"]);
    assert_eq!(ran.code, 127, "{ran:?}");
    let last = ran.err.lines().last().expect("a line");
    let error: serde_json::Value =
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    assert!(
        error["error"]["message"].as_str().is_some_and(|it| it.contains("no-such-program")),
        "{error}"
    );
    let listed = run_program(&case, &["worktree", "list", "--json"]);
    assert!(!listed.out.contains("wx"), "{listed:?}");
}
