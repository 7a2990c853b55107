//! What an undo says is true: nothing is called done that was not, and every path that stays is named.

use serde_json::Value;

use crate::exec::{
    await_file, exec_shell, exec_untraced, read_log, run_program, run_program_in, start_program,
};
use crate::fixture::{CliFixture, read_file};

const NO_CHANGE: &str = "no file had to be changed";

fn write_file(case: &CliFixture, name: &str, text: &str) {
    fs_err::write(case.path("p").join(name), text).expect("written");
}

fn exec_in_session(case: &CliFixture, session: &str, script: &str) {
    let ran = run_program(case, &["exec", "--session", session, "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The root itself was removed: recovery waits for it, and an undo restores what was in it.
#[test]
fn removed_root_is_restored_once_it_exists_again() {
    let case = CliFixture::empty();
    fs_err::create_dir(case.path("p/sub")).expect("created");
    write_file(&case, "a", "a\n");
    write_file(&case, "sub/b", "b\n");
    exec_shell(&case, "rm -rf ../p");
    run_program_in(&case, "q", &["status"]);
    let sessions = run_program_in(&case, "q", &["session", "list", "--all", "--json"]);
    let session = parse(&sessions.out)["sessions"][0]["id"].as_str().expect("an id").to_owned();

    let ran = run_program_in(&case, "q", &["undo", "--session", &session]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("is not known yet: the directory does not exist"), "{}", ran.err);

    fs_err::create_dir(case.path("p")).expect("created");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read_file(&case.path("p/a")), "a\n");
    assert_eq!(read_file(&case.path("p/sub/b")), "b\n");
}

/// A command that replaces its own root: everything that was in it is gone, and comes back.
#[test]
fn replaced_root_is_restored() {
    let case = CliFixture::empty();
    write_file(&case, "a", "a\n");
    exec_shell(&case, "rm -rf ../p; mkdir ../p; echo new > ../p/new");

    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read_file(&case.path("p/a")), "a\n");
    assert!(!case.path("p/new").exists());
}

#[test]
fn undone_turn_can_be_redone_after_the_session_went_on() {
    let case = CliFixture::empty();
    write_file(&case, "a", "a\n");
    exec_shell(&case, "echo b > a");
    let log = read_log(&case);
    let session = log["session"].as_str().expect("an id");
    let turn = log["entries"][0]["id"].as_str().expect("an id");
    assert_eq!(run_program(&case, &["undo", turn]).code, 0);
    exec_in_session(&case, session, "echo c > c");

    let ran = run_program(&case, &["redo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("went on with a new turn after the undo"), "{}", ran.err);
    assert!(ran.err.contains(&format!("`turnstone redo {turn}`")), "{}", ran.err);

    let ran = run_program(&case, &["redo", turn]);
    assert_eq!((ran.code, ran.out.contains("restored   a")), (0, true), "{ran:?}");
    assert!(ran.err.contains("note: a later prompt replaced this turn"), "{}", ran.err);
    assert_eq!(read_file(&case.path("p/a")), "b\n");
    assert!(case.path("p/c").exists());
}

#[test]
fn removed_ignored_files_are_named() {
    let case = CliFixture::empty();
    write_file(&case, ".gitignore", "*.o\nbuild/\n");
    exec_shell(&case, "git init -q; git init -q nest; echo y > nest/y");
    fs_err::create_dir(case.path("p/build")).expect("created");
    write_file(&case, "build/x", "x\n");
    write_file(&case, "x.o", "x\n");
    exec_shell(&case, "rm -rf x.o build nest/.git; echo kept > kept");

    let foreseen = run_program(&case, &["undo", "--dry-run", "--json"]);
    let ran = run_program(&case, &["undo", "--json"]);
    let result = parse(&ran.out);
    assert_eq!((ran.code, foreseen.code), (4, 4), "{result}");
    let named: Vec<(&str, &str)> = result["not_covered"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (it[1].as_str().expect("a path"), it[2].as_str().expect("a reason")))
        .collect();
    assert_eq!(named, [("build", "ignored"), ("nest", "git_directory"), ("x.o", "ignored")]);
    assert_eq!(parse(&foreseen.out)["not_covered"], result["not_covered"]);
    assert!(!case.path("p/kept").exists(), "the rest is undone");
}

#[test]
fn changed_file_over_the_size_limit_is_named() {
    let case = CliFixture::empty();
    let large = fs_err::File::create(case.path("p/large")).expect("created");
    large.set_len(64 << 20).expect("sparse");
    exec_shell(&case, "echo x >> large");

    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("skipped    large  (too large)"), "{}", ran.out);
    assert!(!ran.err.contains(NO_CHANGE), "{}", ran.err);

    exec_shell(&case, "true");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "a large file that did not change is no problem: {ran:?}");
}

#[test]
fn ignored_files_that_may_have_changed_are_one_note() {
    let case = CliFixture::empty();
    write_file(&case, ".gitignore", "*.o\n");
    exec_shell(&case, "git init -q");
    write_file(&case, "x.o", "1\n");
    exec_untraced(&case, "echo 2 > x.o");

    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains(NO_CHANGE), "{}", ran.err);
    assert!(ran.err.contains(": 1 path (ignored)"), "{}", ran.err);
}

#[test]
fn reasons_of_paths_that_are_not_captured_are_true() {
    let case = CliFixture::empty();
    exec_untraced(&case, "mkfifo pipe");

    let ran = run_program(&case, &["undo"]);

    assert!(ran.err.contains("(not a regular file)"), "{ran:?}");
}

/// What changes neither content nor recorded permissions is not called "nothing".
#[test]
fn change_of_the_directory_itself_is_not_called_no_change() {
    let case = CliFixture::empty();
    exec_shell(&case, "chmod 700 .");

    let ran = run_program(&case, &["undo"]);

    assert_eq!((ran.code, ran.err.contains(NO_CHANGE)), (0, false), "{ran:?}");
    assert!(ran.err.contains("note: owners of files, and the permissions of"), "{ran:?}");
}

#[test]
fn content_that_the_store_lost_is_named_path_by_path() {
    let case = CliFixture::empty();
    write_file(&case, "old", "one\n");
    exec_shell(&case, "echo two > old; echo n > new");
    fs_err::remove_dir_all(case.data_dir().join("store")).expect("removed");

    let gone = run_program(&case, &["undo"]);
    assert_eq!(gone.code, 4, "{gone:?}");
    for name in ["new", "old"] {
        let line = format!("skipped    {name}  (captured content is missing");
        assert!(gone.out.contains(&line), "{gone:?}");
    }

    // A new store does not have it, either; as long as something is missing, nothing is removed.
    run_program(&case, &["exec", "--new", "--", "true"]);
    let turn = read_log(&case)["entries"][0]["id"].as_str().expect("an id").to_owned();
    let ran = run_program(&case, &["undo", &turn]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("skipped    old  (captured content is missing"), "{ran:?}");
    assert!(case.path("p/new").exists(), "{ran:?}");
    assert_eq!(read_file(&case.path("p/old")), "two\n");
}

#[test]
fn turn_without_recorded_changes_says_only_what_is_known() {
    let case = CliFixture::empty();
    exec_shell(&case, "true");

    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, ran.err.contains("no recorded file was changed")), (0, true), "{ran:?}");
}

#[test]
fn dry_run_of_a_busy_session_fails_like_the_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    let session = read_log(&case)["session"].as_str().expect("an id").to_owned();
    let slow = "touch ../runs; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut busy = start_program(&case, &["exec", "--session", &session, "--", "sh", "-c", slow]);
    await_file(&case.path("runs"));
    let named = ["--session", session.as_str()];
    let results = [&["undo", "--dry-run"][..], &["undo"], &["redo", "--dry-run"], &["redo"]]
        .map(|args| run_program(&case, &[args, &named[..]].concat()));
    fs_err::write(case.path("enough"), "").expect("written");
    assert!(busy.wait().expect("ends").success());

    let [foreseen, undo, _, _] = &results;
    assert_eq!((foreseen.code, undo.code), (4, 4), "{results:?}");
    assert_eq!(foreseen.err.lines().last(), undo.err.lines().last(), "{results:?}");
}

/// The command that is hinted at redoes the turns of both sessions, in whatever order they were used.
#[test]
fn hint_after_undo_of_two_sessions_redoes_both() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    let one = read_log(&case)["entries"][0]["id"].as_str().expect("an id").to_owned();
    run_program(&case, &["exec", "--new", "--", "sh", "-c", "echo b > b"]);
    let two = read_log(&case)["entries"][1]["id"].as_str().expect("an id").to_owned();
    assert_ne!(one, two);
    let ran = run_program(&case, &["undo", &one, &two]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/a").exists() && !case.path("p/b").exists());

    let (_, hint) = ran.err.rsplit_once("hint: `turnstone ").expect("a hint");
    let (command, _) = hint.split_once('`').expect("quoted");
    let ran = run_program(&case, &command.split(' ').collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{command}: {ran:?}");
    assert!(case.path("p/a").exists() && case.path("p/b").exists());
}

#[test]
fn restore_hint_can_be_typed_in_a_subdirectory() {
    let case = CliFixture::empty();
    fs_err::create_dir(case.path("p/sub")).expect("created");
    write_file(&case, "it's a file", "1\n2\n");
    exec_shell(&case, "echo 3 > \"it's a file\"");
    write_file(&case, "it's a file", "4\n");

    let ran = run_program_in(&case, "p/sub", &["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let (_, hint) = ran.err.split_once("`turnstone snapshot restore ").expect("a hint");
    let (args, _) = hint.split_once('`').expect("quoted");
    let (capture, path) = args.split_once(' ').expect("a capture and a path");
    assert_eq!(path, "\"../it's a file\"");
    let restore = ["snapshot", "restore", capture, path.trim_matches('"')];
    assert_eq!(run_program_in(&case, "p/sub", &restore).code, 0);
    assert_eq!(read_file(&case.path("p/it's a file")), "1\n2\n");
}

/// Proves R3: an undo inside a command names the command, and an undo of the command names the undo.
#[test]
fn undo_inside_a_command_names_its_turn() {
    let case = CliFixture::empty();
    write_file(&case, "a", "a\n");
    exec_shell(&case, "echo b > a");
    let turn = read_log(&case)["entries"][0]["id"].as_str().expect("an id").to_owned();
    let undo = format!("{} undo {turn} --dry-run", env!("CARGO_BIN_EXE_turnstone"));

    let ran = exec_shell(&case, &format!("{undo}; {undo} --json"));
    assert!(ran.err.contains("note: this runs inside the command of turn trn_"), "{ran:?}");
    let (_, result) = ran.out.split_once('{').expect("an object");
    let result = parse(&format!("{{{result}"));
    assert_eq!(result["open_windows"][0]["enclosing"], true, "{result}");
}
