//! Commands that cannot be traced, or not completely: the turn is a window, says why, and is undone as such.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::exec::{TEST_PATH, await_file, await_line, read_log, run_program, start_program};
use crate::fixture::CliFixture;
use crate::undo_modes::{read_text, write_file};

/// Compiles the program that refuses the filter.
fn compile_policy(case: &CliFixture) {
    fs_err::write(case.path("policy.c"), include_str!("refuse_seccomp.c")).expect("written");
    let compiled = start("cc", &["-o", "policy", "policy.c"], &case.path("")).wait();
    assert!(compiled.expect("ends").success());
}

#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot start programs under a policy")]
fn start(program: &str, args: &[&str], directory: &Path) -> Child {
    Command::new(program)
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

/// Runs Turnstone where the kernel answers `seccomp` with an error.
fn start_under_policy(case: &CliFixture, errno: i32, args: &[&str], output: &str) -> Child {
    let place = |path: &str| case.path(path).to_string_lossy().into_owned();
    let script = format!(
        "export HOME='{}' TURNSTONE_DATA='{}' PATH={TEST_PATH} TZ=UTC USER=ada; \
         exec '{}' {errno} '{}' \"$@\" > '{}'",
        place("home"),
        case.data_dir().display(),
        place("policy"),
        env!("CARGO_BIN_EXE_turnstone"),
        place(output),
    );
    let all: Vec<&str> = ["-c", &script, "sh"].into_iter().chain(args.iter().copied()).collect();
    start("/bin/sh", &all, &case.path("p"))
}

fn newest_turn(case: &CliFixture) -> Value {
    let log = read_log(case);
    let entries = log["entries"].as_array().expect("entries");
    entries.iter().rfind(|entry| entry["type"] == "turn").expect("a turn").clone()
}

fn files_of<'t>(turn: &'t Value) -> Vec<(&'t str, &'t str)> {
    let files = turn["files"].as_array().expect("files").iter();
    let text = |value: &'t Value| value.as_str().expect("text");
    files.map(|file| (text(&file["path"]), text(&file["evidence"]))).collect()
}

fn assert_untraced(turn: &Value, reason: &str) {
    let why = turn["traces"][0]["untraced"].as_str().unwrap_or_default();
    assert!(why.contains(reason), "{reason}: {turn}");
}

/// What a kernel without seccomp answers.
const ENOSYS: i32 = 38;
/// What a sandbox answers.
const EPERM: i32 = 1;

const SCRIPT: &str = "echo two > mine; : > ../started; while [ ! -e ../go ]; do sleep 0.02; done; \
                      echo new > made";

/// Proves R2: what a window claims is undone exactly, kept for a redo, and skipped by who wants certainty.
#[test]
fn refused_trace_is_a_window_with_the_reason() {
    for (errno, reason) in [(ENOSYS, "Linux 5.9"), (EPERM, "policy refuses it")] {
        let case = CliFixture::empty();
        compile_policy(&case);
        write_file(&case, "mine", "one\n");
        write_file(&case, "theirs", "one\n");
        let args = ["exec", "--", "sh", "-c", SCRIPT];
        let mut command = start_under_policy(&case, errno, &args, "out");
        await_file(&case.path("started"));
        write_file(&case, "theirs", "by a person\n");
        write_file(&case, "../go", "");
        assert!(command.wait().expect("ends").success());

        let turn = newest_turn(&case);
        let window = [("made", "window"), ("mine", "window"), ("theirs", "window")];
        assert_eq!(files_of(&turn), window);
        assert_untraced(&turn, reason);
        let mut status = start_under_policy(&case, errno, &["status", "--json"], "status");
        assert!(status.wait().expect("ends").success());
        let status: Value =
            serde_json::from_str(&fs_err::read_to_string(case.path("status")).expect("text"))
                .expect("JSON");
        assert_eq!(status["tracing"]["state"], "unavailable", "{status}");

        let certain = run_program(&case, &["undo", "--named-only"]);
        assert_eq!(read_text(&case, "mine"), "two\n", "{certain:?}");
        let undone = run_program(&case, &["undo"]);
        assert_eq!(undone.code, 0, "{undone:?}");
        assert_eq!(
            (read_text(&case, "mine"), read_text(&case, "theirs")),
            ("one\n".into(), "one\n".into())
        );
        assert!(!case.path("p/made").exists());
        let redone = run_program(&case, &["redo"]);
        assert_eq!(redone.code, 0, "{redone:?}");
        assert_eq!(read_text(&case, "theirs"), "by a person\n", "the guard kept it");
        assert_eq!(
            (read_text(&case, "mine"), read_text(&case, "made")),
            ("two\n".into(), "new\n".into())
        );
    }
}

/// Proves R2.
#[test]
fn gap_in_a_trace_is_a_window_with_the_reason() {
    let by_handle = "/usr/bin/python3 -B -c \"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(8 + 128)
ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
mount = ctypes.c_int()
assert libc.name_to_handle_at(-100, b'mine', handle, ctypes.byref(mount), 0) == 0
place = os.open('.', os.O_RDONLY)
fd = libc.open_by_handle_at(place, handle, os.O_WRONLY)
assert fd >= 0, ctypes.get_errno()
os.write(fd, b'two')
\"";
    let overlay = "mkdir s; unshare --user --map-root-user --mount sh -ec '\
         mount -t tmpfs none s; mkdir s/lower s/upper s/work s/merged; \
         mount -t overlay none -o lowerdir=s/lower,upperdir=s/upper,workdir=s/work,userxattr s/merged; \
         echo x > s/merged/file'; echo two > mine";
    let cases = [
        (by_handle, "opened by its handle"),
        (overlay, "mounted inside of the command (s/merged/file)"),
    ];
    for (script, reason) in cases {
        let case = CliFixture::empty();
        write_file(&case, "mine", "one\n");
        let ran = run_program(&case, &["exec", "--", "sh", "-c", script]);
        assert_eq!(ran.code, 0, "{ran:?}");

        let turn = newest_turn(&case);
        assert!(files_of(&turn).contains(&("mine", "window")), "{turn}");
        assert_untraced(&turn, reason);
        assert_eq!(run_program(&case, &["undo"]).code, 0);
        assert_eq!(read_text(&case, "mine"), "one\n");
    }
}

/// The processes that answer for a command, by the folder with its trace.
fn find_holders(case: &CliFixture) -> Vec<i32> {
    let folder = fs_err::canonicalize(case.data_dir().join("trace")).expect("a folder");
    let is_holder = |process: &Path| {
        let name = fs_err::read_to_string(process.join("comm")).unwrap_or_default();
        let files = fs_err::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| fs_err::read_link(file.path()).ok());
        name.trim() == "turnstone-trace" && links.any(|link| link.starts_with(&folder))
    };
    let all = fs_err::read_dir("/proc").expect("listed").flatten().map(|entry| entry.path());
    let holders = all.filter(|process| is_holder(process));
    holders.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
}

fn signal(pid: i32, name: &str) {
    let sent = start("kill", &[name, &pid.to_string()], Path::new("/")).wait();
    assert!(sent.expect("ends").success());
}

/// Proves R2, R32: the command cannot go on without them, and what it did until then is recorded.
#[test]
fn command_whose_tracers_were_killed_ends_as_a_window_with_the_reason() {
    let case = CliFixture::empty();
    write_file(&case, "mine", "one\n");
    let script = "echo two > mine; : > ../started; while :; do sleep 0.02; done";
    let mut command = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("started"));
    let holders = find_holders(&case);
    assert_eq!(holders.len(), 2);
    // Stopped first: neither can replace the other.
    for name in ["-STOP", "-KILL"] {
        holders.iter().for_each(|pid| signal(*pid, name));
    }
    assert!(!command.wait().expect("ends").success());

    let turn = newest_turn(&case);
    assert_eq!(files_of(&turn), [("mine", "window")]);
    assert_untraced(&turn, "the tracing processes were killed");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!(read_text(&case, "mine"), "one\n");
}

/// Proves R2, R32: the trace of a command does not depend on its supervisor.
#[test]
fn changes_of_a_command_whose_supervisor_was_killed_are_traced() {
    let case = CliFixture::empty();
    write_file(&case, "mine", "one\n");
    write_file(&case, "theirs", "one\n");
    let script = "echo two > mine; ps -o sid= -p $$ > ../supervisor; while :; do sleep 0.02; done";
    let mut command = start_program(&case, &["exec", "--", "sh", "-c", script]);
    let supervisor = await_line(&case.path("supervisor"));
    write_file(&case, "theirs", "by a person\n");
    signal(supervisor.trim().parse().expect("a number"), "-KILL");
    assert!(!command.wait().expect("ends").success());

    let turn = newest_turn(&case);
    assert_eq!(files_of(&turn), [("mine", "traced")], "{turn}");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!(
        (read_text(&case, "mine"), read_text(&case, "theirs")),
        ("one\n".to_owned(), "by a person\n".to_owned())
    );
}
