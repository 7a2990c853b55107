//! Undo, redo and log act on the turns of the whole project, whichever sessions they belong to.

use serde_json::Value;

use crate::exec::{await_file, exec_shell, read_log, run_program, run_program_in, start_program};
use crate::fixture::{CliFixture, ProgramOutput};
use crate::project_worktree::run_git;

fn exec_in_new_session(case: &CliFixture, script: &str) {
    let ran = run_program(case, &["exec", "--new", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// The files `a`, `b`, … that exist, as one word.
fn files(case: &CliFixture) -> String {
    let exists = |name: &char| case.path("p").join(name.to_string()).exists();
    ('a'..='f').filter(exists).collect()
}

fn assert_ok(ran: &ProgramOutput) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Runs a command and returns the files that exist afterwards.
fn files_after(case: &CliFixture, args: &[&str]) -> String {
    assert_ok(&run_program(case, args));
    files(case)
}

/// Sessions: `a` `b`, then `c`, then `d`.
fn three_sessions() -> CliFixture {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_shell(&case, "echo b > b");
    exec_in_new_session(&case, "echo c > c");
    exec_in_new_session(&case, "echo d > d");
    assert_eq!(session_ids(&case).len(), 3);
    case
}

fn session_ids(case: &CliFixture) -> Vec<String> {
    let listed = run_program(case, &["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    let id = |it: &Value| it["id"].as_str().expect("an id").to_owned();
    listed["sessions"].as_array().expect("a list").iter().map(id).collect()
}

#[test]
fn undo_walks_back_and_redo_forward_across_sessions() {
    let case = three_sessions();
    for left in ["abc", "ab", "a", ""] {
        assert_eq!(files_after(&case, &["undo"]), left);
    }
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("error: the project in ~/p has nothing left to undo\nhint: "));
    for back in ["a", "ab", "abc", "abcd"] {
        assert_eq!(files_after(&case, &["redo"]), back);
    }
    let ran = run_program(&case, &["redo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("error: the project in ~/p has nothing to redo\nhint: "));
    assert_eq!(files_after(&case, &["undo"]), "abc", "the last redo is reversed first");
}

#[test]
fn turns_are_selected_by_number() {
    let case = three_sessions();
    assert_eq!(files_after(&case, &["undo", "@2"]), "abd");
    assert_eq!(files_after(&case, &["undo", "@4", "@3"]), "d", "undone turns keep their number");
    assert_eq!(files_after(&case, &["redo", "@2"]), "cd");
    let ran = run_program(&case, &["diff", "@4", "--json"]);
    let diff: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(diff["files"][0]["file"], "a", "{diff}");
    assert!(run_program(&case, &["diff", "--turn", "@3"]).out.contains("+++ b/b\n"));
    let ran = run_program(&case, &["diff", "@3", "--from", "@4"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let ran = run_program(&case, &["diff", "--from", "@1", "--to", "@4"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("error: turn @4 belongs to session ses_"), "{}", ran.err);
    assert_eq!(files_after(&case, &["jump", "before:@1"]), "c", "in the session of that turn");
    assert_ok(&run_program(&case, &["fork", "--at", "@1"]));
    for wrong in ["@0", "@x", "@"] {
        assert_eq!(run_program(&case, &["undo", wrong]).code, 2, "{wrong}");
    }
    let ran = run_program(&case, &["undo", "@99"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("matches \"@99\""), "{}", ran.err);
}

#[test]
fn last_turns_are_undone_in_one_step() {
    let case = three_sessions();
    let ran = run_program(&case, &["undo", "--last", "3", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(plan["roots"][0]["report"]["removed"].as_array().map(Vec::len), Some(3), "{plan}");
    assert_eq!(files_after(&case, &["undo", "--last", "3"]), "a");
    assert_eq!(files_after(&case, &["undo"]), "", "the fourth");
    let ran = run_program(&case, &["undo", "--last", "1"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(files_after(&case, &["redo", "--last", "2"]), "abcd", "two steps");
    let ran = run_program(&case, &["undo", "--last", "5"]);
    assert_eq!((ran.code, files(&case).as_str()), (1, "abcd"), "{ran:?}");
    assert!(ran.err.contains("only 4 of the last 5 turns can be undone"), "{}", ran.err);
    assert!(ran.err.contains("`turnstone undo --last 4`"), "{}", ran.err);
}

/// What an undo named by its turn, or took along from another session, has undone is not undone again.
#[test]
fn undone_turns_are_passed_over() {
    let case = three_sessions();
    exec_in_new_session(&case, "true");
    assert_eq!(files_after(&case, &["undo", "--last", "2"]), "abc");
    assert_eq!(files_after(&case, &["undo", "@5"]), "bc", "the first turn of its session");
    assert_eq!(files_after(&case, &["undo"]), "b");
    assert_eq!(files_after(&case, &["undo"]), "");
    assert_eq!(run_program(&case, &["undo"]).code, 1);
}

/// A file that a person had reverted stays out of the undo, and does not keep the turn.
#[test]
fn turn_with_reverted_file_is_undone_once() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_shell(&case, "echo b > b; echo c > c");
    exec_shell(&case, "echo d > d");
    assert_eq!(files_after(&case, &["undo", "--files"]), "abc");
    fs_err::remove_file(case.path("p/b")).expect("removed");
    assert_eq!(files_after(&case, &["undo"]), "a");
    assert_eq!(files_after(&case, &["undo"]), "");
}

#[test]
fn log_numbers_the_turns_of_all_sessions_in_80_columns() {
    let case = three_sessions();
    let long = "x".repeat(60);
    let script = format!("mkdir {long}; echo e > {long}/{long}; echo f > f");
    exec_in_new_session(&case, &script);
    assert_eq!(run_program(&case, &["undo", "@3"]).code, 0);

    let ran = run_program(&case, &["log"]);
    assert_ok(&ran);
    let numbers: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('@')).collect();
    assert_eq!(numbers.len(), 5, "{}", ran.out);
    for (line, number) in numbers.iter().zip(1..) {
        assert!(line.starts_with(&format!("@{number}  trn_")), "newest first: {}", ran.out);
    }
    let short = numbers[0].split_whitespace().nth(1).expect("an ID");
    assert!(numbers[2].contains("(undone)"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert_eq!(run_program(&case, &["undo", short, "--dry-run"]).code, 0, "{short}");

    let entries = read_log(&case)["entries"].as_array().expect("entries").clone();
    let turns = entries.iter().filter(|it| it["type"] == "turn");
    let numbers: Vec<u64> = turns.map(|it| it["number"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1], "oldest first");
    assert!(entries.iter().all(|it| it["session"].is_string()), "{entries:?}");

    let ran = run_program(&case, &["log", "--limit", "2"]);
    assert_eq!(ran.out.matches("\n@").count() + usize::from(ran.out.starts_with('@')), 2);
    assert!(ran.err.contains("3 older turns not shown"), "{}", ran.err);
}

#[test]
fn exec_continues_the_newest_session_of_its_directory() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_shell(&case, "echo b > b");
    assert_eq!(session_ids(&case).len(), 1);
    exec_in_new_session(&case, "echo c > c");
    assert_eq!(session_ids(&case).len(), 2);
    exec_shell(&case, "echo d > d");
    assert_eq!(session_ids(&case).len(), 2);
    assert_eq!(run_program(&case, &["exec", "--title", "t", "--", "true"]).code, 0);
    assert_eq!(session_ids(&case).len(), 3, "a title is that of a new session");
    assert_ok(&run_program_in(&case, "p/src", &["exec", "--", "true"]));
    assert_eq!(session_ids(&case).len(), 4, "another directory");
    let ran = run_program(&case, &["exec", "--new", "--session", "x", "--", "true"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn exec_after_an_undo_begins_a_session() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    assert_eq!(files_after(&case, &["undo"]), "");
    exec_shell(&case, "echo b > b");
    assert_eq!(session_ids(&case).len(), 2);
    assert_eq!(files_after(&case, &["redo", "@2"]), "ab");
    assert_eq!(files_after(&case, &["undo"]), "a");
    assert_eq!(files_after(&case, &["redo"]), "ab");
}

/// A command that runs in the newest session neither stops another command nor a plain undo.
#[test]
fn running_command_blocks_neither_exec_nor_plain_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_shell(&case, "echo b > b");
    let slow = "echo c > c; touch ../runs; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut running = start_program(&case, &["exec", "--", "sh", "-c", slow]);
    await_file(&case.path("runs"));
    assert_eq!(session_ids(&case).len(), 1, "it continues the session");

    let foreseen = run_program(&case, &["undo", "--dry-run"]);
    let undo = run_program(&case, &["undo"]);
    let left = files(&case);
    let redo = run_program(&case, &["redo"]);
    let back = files(&case);
    let again = run_program(&case, &["undo"]);
    let named = run_program(&case, &["undo", "@1"]);
    let conversation = run_program(&case, &["undo", "--conversation"]);
    let other = exec_shell(&case, "echo d > d");
    fs_err::write(case.path("enough"), "").expect("written");
    assert!(running.wait().expect("ends").success());

    assert_eq!((foreseen.code, undo.code, redo.code, again.code), (0, 0, 0, 0), "{undo:?}");
    assert_eq!((undo.out.as_str(), left.as_str(), back.as_str()), ("removed    b\n", "ac", "abc"));
    assert!(undo.err.contains("note: turn trn_") && undo.err.contains("is running a command"));
    assert_eq!((named.code, conversation.code), (4, 4), "{named:?} {conversation:?}");
    assert_ok(&other);
    assert_eq!((session_ids(&case).len(), files(&case).as_str()), (2, "acd"));
    // What ran at the same time is left alone.
    assert_eq!(run_program(&case, &["undo", "@2"]).out.lines().next(), Some("removed    c"));
    assert_eq!(files(&case), "ad");
    assert_eq!(run_program(&case, &["doctor"]).code, 0);
}

#[test]
fn simultaneous_commands_all_run() {
    let case = CliFixture::empty();
    exec_shell(&case, "true");
    let start = |name: char| {
        let script = format!("echo x > {name}");
        start_program(&case, &["exec", "--", "sh", "-c", &script])
    };
    let mut children: Vec<_> = ('a'..='f').map(start).collect();
    for child in &mut children {
        assert!(child.wait().expect("ends").success());
    }
    assert_eq!(files(&case), "abcdef");
    assert_eq!(run_program(&case, &["doctor"]).code, 0);
}

/// Proves R3: what an undo writes while a command runs is no change of that command's turn that could stop the
/// undo of the turns before.
#[test]
fn undo_during_another_command_does_not_block_the_next_undo() {
    let case = CliFixture::empty();
    let write = |name: &str, text: &str| fs_err::write(case.path("p").join(name), text);
    let read = |name: &str| fs_err::read_to_string(case.path("p").join(name)).expect("read");
    write("a", "1").and_then(|()| write("y", "1")).expect("written");
    exec_shell(&case, "printf 2 > y");
    exec_shell(&case, "printf 2 > a");
    let script = "touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let mut command = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("started"));

    assert_ok(&run_program(&case, &["undo"]));
    assert_eq!((read("a"), read("y")), ("1".to_owned(), "2".to_owned()));
    write("../go", "").expect("written");
    assert!(command.wait().expect("ends").success());

    // The command itself changed nothing; that may be undone as well, before the turn that changed `y`.
    for _ in 0..2 {
        if read("y") == "2" {
            assert_ok(&run_program(&case, &["undo"]));
        }
    }
    assert_eq!((read("a"), read("y")), ("1".to_owned(), "1".to_owned()));
}

#[test]
fn undo_leaves_out_the_copies_of_a_fork() {
    let case = CliFixture::empty();
    for name in ["a", "b", "c"] {
        exec_shell(&case, &format!("echo {name} > {name}"));
    }
    assert_eq!(run_program(&case, &["fork", "--at", "@1"]).code, 0);
    let present = || ["a", "b", "c"].map(|name| case.path("p").join(name).exists());
    let log = run_program(&case, &["log"]).out;
    assert_eq!(log.matches("echo b > b").count(), 1, "{log}");
    for left in [[true, true, false], [true, false, false], [false; 3]] {
        assert_eq!(run_program(&case, &["undo"]).code, 0);
        assert_eq!(present(), left);
    }
}

#[test]
fn undo_names_a_running_turn_if_nothing_else_is_left() {
    let case = CliFixture::empty();
    exec_shell(&case, "true");
    let mut child = start_program(
        &case,
        &["exec", "--new", "--", "sh", "-c", "mkfifo fifo; touch began; read x < fifo"],
    );
    await_file(&case.path("p/began"));
    drop(run_program(&case, &["undo"]));
    let ran = run_program(&case, &["undo"]);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("is still running"), "{ran:?}");
}

#[test]
fn undo_names_other_checkouts_with_turns() {
    let case = CliFixture::empty();
    run_git(&case.path("p"), &["init", "-q"]);
    run_git(&case.path("p"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let ran = run_program(&case, &["exec", "--worktree=other", "--", "sh", "-c", "echo 1 > f"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    exec_shell(&case, "echo 2 > g");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("hint: run `turnstone undo` in "), "{ran:?}");
}
