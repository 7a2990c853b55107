//! Undo and redo of several sessions move the conversation of each one that they are about.

use serde_json::Value;

use crate::exec::{await_file, exec_shell, read_log, run_program, start_program};
use crate::fixture::{CliFixture, ProgramOutput};

fn exec_in_new_session(case: &CliFixture, script: &str) {
    assert_ok(&run_program(case, &["exec", "--new", "--", "sh", "-c", script]));
}

fn assert_ok(ran: &ProgramOutput) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// The turns, newest first, as `(session, turn)`.
fn turns(case: &CliFixture) -> Vec<(String, String)> {
    let log = read_log(case);
    let entries = log["entries"].as_array().expect("entries").iter().rev();
    let word = |entry: &Value, field: &str| entry[field].as_str().expect("a word").to_owned();
    let turn = |entry: &Value| (word(entry, "session"), word(entry, "id"));
    entries.filter(|entry| entry["type"] == "turn").map(turn).collect()
}

/// One mark per turn, newest first: `-` if the log shows it as undone, `+` if not.
fn undone_marks(case: &CliFixture) -> String {
    let ran = run_program(case, &["log"]);
    assert_ok(&ran);
    let heads = ran.out.lines().filter(|line| line.starts_with('@'));
    heads.map(|line| if line.contains("(undone)") { '-' } else { '+' }).collect()
}

fn present(case: &CliFixture) -> String {
    ('a'..='f').filter(|name| case.path("p").join(name.to_string()).exists()).collect()
}

fn json(ran: &ProgramOutput) -> Value {
    serde_json::from_str(&ran.out).expect("JSON")
}

/// Turns without files are undone by their conversation alone.
#[test]
fn undo_of_several_sessions_moves_each_conversation() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_in_new_session(&case, "true");
    exec_shell(&case, "true");
    exec_in_new_session(&case, "echo c > c");

    assert_ok(&run_program(&case, &["undo", "--last", "3"]));
    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("---+", "a"));
    let log = run_program(&case, &["log"]).out;
    assert_eq!(
        (log.matches("    its files with opn_").count(), log.matches("1 removed").count()),
        (1, 1)
    );
    let ran = run_program(&case, &["redo"]);
    assert_ok(&ran);
    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("++++", "ac"), "{ran:?}");
    let ran = run_program(&case, &["redo"]);
    assert_eq!(ran.code, 1, "one redo reverses all of it: {ran:?}");

    // The conversations alone, and back.
    assert_ok(&run_program(&case, &["undo", "--last", "4", "--conversation"]));
    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("----", "ac"));
    assert_ok(&run_program(&case, &["redo"]));
    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("++++", "ac"));

    // An undo of the next turn is about that turn, whatever was taken along before.
    assert_ok(&run_program(&case, &["undo", "--last", "2"]));
    assert_ok(&run_program(&case, &["undo"]));
    assert_eq!(undone_marks(&case), "---+");
    for expected in ["--++", "++++"] {
        assert_ok(&run_program(&case, &["redo"]));
        assert_eq!(undone_marks(&case), expected);
    }
    assert_ok(&run_program(&case, &["doctor"]));
}

#[test]
fn redo_of_a_named_turn_leaves_the_turns_that_were_undone_with_it() {
    for first in [0, 1] {
        let case = CliFixture::empty();
        exec_shell(&case, "echo a > a");
        exec_in_new_session(&case, "echo b > b");
        let turns: Vec<String> = turns(&case).into_iter().map(|(_, turn)| turn).rev().collect();
        let (one, other) = (&turns[first], &turns[1 - first]);
        for by in [one, other] {
            let undo = run_program(&case, &["undo", one, other]);
            assert_ok(&undo);
            assert!(undo.err.contains("hint: `turnstone redo` reverses this undo"), "{undo:?}");
            assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("--", ""));

            let redo = run_program(&case, &["redo", by]);
            assert_ok(&redo);
            let only = if *by == turns[0] { ("-+", "a") } else { ("+-", "b") };
            assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), only, "{redo:?}");

            assert_ok(&run_program(&case, &["redo"]));
            assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("++", "ab"));
            assert_eq!(run_program(&case, &["redo"]).code, 1);
        }
        assert_ok(&run_program(&case, &["undo", one, other]));
        assert_ok(&run_program(&case, &["redo", other, one]));
        assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("++", "ab"));
    }
}

#[test]
fn conversation_that_an_undo_of_several_sessions_leaves_is_named() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_shell(&case, "echo b > b");
    exec_in_new_session(&case, "echo c > c");
    let earlier = turns(&case)[2].0.clone();

    let foreseen = run_program(&case, &["undo", "@3", "@1", "--dry-run", "--json"]);
    let ran = run_program(&case, &["undo", "@3", "@1"]);
    assert_ok(&ran);
    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("-+-", "b"), "{ran:?}");
    let note = format!("note: the conversation of session {earlier} stays: later turns of it are");
    assert!(ran.err.contains(&note), "{ran:?}");
    let left = &json(&foreseen)["conversations_left"];
    assert_eq!(left[0]["session"], earlier.as_str(), "{foreseen:?}");
    assert_eq!((&left[0]["reason"], &left[1]), (&"later_turns".into(), &Value::Null));
}

#[test]
fn conversation_with_a_running_turn_is_named_and_stays() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_in_new_session(&case, "true");
    let slow = "touch ../runs; while [ ! -e ../enough ]; do sleep 0.05; done";
    let session = turns(&case)[1].0.clone();
    let mut running =
        start_program(&case, &["exec", "--session", &session, "--", "sh", "-c", slow]);
    await_file(&case.path("runs"));

    let undo = run_program(&case, &["undo", "--last", "2"]);
    fs_err::write(case.path("enough"), "").expect("written");
    assert!(running.wait().expect("ends").success());

    assert_ok(&undo);
    assert_eq!(present(&case), "", "{undo:?}");
    let note =
        format!("note: the conversation of session {session} stays: a turn of it is running");
    assert!(undo.err.contains(&note), "{undo:?}");
}

/// An undo of a turn that is undone already is nothing that a redo could reverse.
#[test]
fn undo_of_an_undone_turn_is_passed_over_by_a_redo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    assert_ok(&run_program(&case, &["undo"]));
    let again = run_program(&case, &["undo", "@1"]);
    assert_ok(&again);
    assert!(again.err.contains("note: the files of these turns are undone already"), "{again:?}");

    assert_ok(&run_program(&case, &["redo"]));

    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("+", "a"));
    assert_eq!(run_program(&case, &["redo"]).code, 1);
}

/// What is undone of a session is recorded with it, and not only with the session of the newest turn.
#[test]
fn deleting_the_newest_session_of_an_undo_leaves_the_redo_of_the_others() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a");
    exec_in_new_session(&case, "echo b > b");
    exec_in_new_session(&case, "echo c > c");
    let newest = turns(&case)[0].0.clone();
    assert_ok(&run_program(&case, &["undo", "--last", "3"]));
    assert_ok(&run_program(&case, &["session", "delete", &newest, "--yes"]));

    for _ in 0..2 {
        assert_ok(&run_program(&case, &["redo"]));
    }

    assert_eq!((undone_marks(&case).as_str(), present(&case).as_str()), ("++", "ab"));
    assert_eq!(run_program(&case, &["redo"]).code, 1);
    assert_ok(&run_program(&case, &["doctor"]));
}
