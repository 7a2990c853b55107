//! A filtered undo uses up only what it undid, and a redo reverses exactly the newest undo.

use serde_json::Value;

use crate::exec::{exec_shell, exec_untraced, run_program};
use crate::fixture::{CliFixture, read_file};

fn exists(case: &CliFixture, name: &str) -> bool {
    case.path("p").join(name).exists()
}

#[test]
fn undo_of_one_path_leaves_the_rest_to_the_next_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo first > first");
    let session = crate::exec::read_log(&case)["session"].as_str().expect("an id").to_owned();
    run_program(
        &case,
        &["exec", "--session", &session, "--", "sh", "-c", "echo a > a; echo b > b"],
    );

    let ran = run_program(&case, &["undo", "--path", "a"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    assert!(ran.err.contains("hint: 1 file of these turns can still be undone: `turnstone undo`"));
    assert_eq!(
        [exists(&case, "a"), exists(&case, "b"), exists(&case, "first")],
        [false, true, true]
    );

    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, ran.out.contains("b")), (0, true), "{ran:?}");
    assert_eq!(
        [exists(&case, "b"), exists(&case, "first")],
        [false, true],
        "the rest, no other turn"
    );

    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert!(!exists(&case, "first"), "now the turn before");
}

#[test]
fn redo_reverses_partial_undos_one_by_one() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a; echo b > b; echo c > c");
    let now = || ["a", "b", "c"].map(|name| exists(&case, name));
    assert_eq!(run_program(&case, &["undo", "--path", "a"]).code, 0);
    assert_eq!(run_program(&case, &["undo", "--path", "b"]).code, 0);
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!(now(), [false, false, false]);

    for expected in [[false, false, true], [false, true, true], [true, true, true]] {
        let ran = run_program(&case, &["redo"]);
        assert_eq!((ran.code, now()), (0, expected), "{ran:?}");
    }
    assert_eq!(run_program(&case, &["redo"]).code, 1, "nothing is left");
}

#[test]
fn redo_of_one_path_leaves_the_rest_to_the_next_redo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a; echo b > b");
    assert_eq!(run_program(&case, &["undo"]).code, 0);

    let ran = run_program(&case, &["redo", "--path", "a"]);
    assert_eq!((ran.code, exists(&case, "a"), exists(&case, "b")), (0, true, false), "{ran:?}");
    let ran = run_program(&case, &["redo"]);
    assert_eq!((ran.code, exists(&case, "b")), (0, true), "{ran:?}");
    assert_eq!(run_program(&case, &["redo"]).code, 1);
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!([exists(&case, "a"), exists(&case, "b")], [false, false]);
}

#[test]
fn path_that_no_turn_changed_is_an_error_and_moves_nothing() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo a > a; echo b > b");
    for args in [["undo", "--path", "typo"], ["redo", "--path", "typo"]] {
        if args[0] == "redo" {
            assert_eq!(run_program(&case, &["undo"]).code, 0);
        }
        for extra in [&[][..], &["--dry-run"], &["--path", "a"]] {
            let ran = run_program(&case, &[&args[..], extra].concat());
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(ran.err.contains("error: the selected turns changed no file at typo\n"));
        }
    }
    assert_eq!([exists(&case, "a"), exists(&case, "b")], [false, false]);
    assert_eq!(run_program(&case, &["redo"]).code, 0, "the undo can still be reversed");
    assert_eq!([exists(&case, "a"), exists(&case, "b")], [true, true]);
}

#[test]
fn undo_of_named_files_only_leaves_the_rest_to_the_next_undo() {
    let case = CliFixture::empty();
    exec_untraced(&case, "echo a > a");

    let ran = run_program(&case, &["undo", "--named-only"]);
    assert_eq!((ran.code, exists(&case, "a")), (0, true), "{ran:?}");
    assert!(ran.out.contains("skipped    a"), "{}", ran.out);
    assert!(!ran.err.contains("no file had to be changed"), "{}", ran.err);

    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, exists(&case, "a")), (0, false), "{ran:?}");
}

#[test]
fn undo_with_one_conflict_and_nothing_else_to_do_keeps_the_turn() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/a"), "a\n").expect("written");
    fs_err::write(case.path("p/b"), "b\n").expect("written");
    exec_shell(&case, "echo A > a; echo B > b");
    fs_err::write(case.path("p/a"), "a\n").expect("written");
    fs_err::write(case.path("p/b"), "mine\n").expect("written");

    let ran = run_program(&case, &["undo", "--json"]);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &result["without_effect"]), (4, &true.into()), "{result}");
    assert_eq!(read_file(&case.path("p/b")), "mine\n");

    fs_err::write(case.path("p/b"), "B\n").expect("written");
    assert_eq!(run_program(&case, &["undo"]).code, 0, "the turn is still there to be undone");
    assert_eq!(read_file(&case.path("p/b")), "b\n");
}

#[test]
fn directory_that_came_back_with_a_file_is_not_left_to_the_next_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "mkdir d e; echo 1 > d/1; echo 2 > d/2; echo 1 > e/1");
    exec_shell(&case, "rm -r d");

    let ran = run_program(&case, &["undo", "--path", "d/1"]);
    assert!(ran.err.contains("hint: 1 file of these turns can still be undone"), "{ran:?}");
    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "restored   d/2\n"), "{ran:?}");

    exec_shell(&case, "rm -r e");
    let ran = run_program(&case, &["undo", "--path", "e/1"]);
    assert!(!ran.err.contains("can still be undone"), "{ran:?}");
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(!exists(&case, "e"), "a redo reverses all of it");
    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, exists(&case, "e/1")), (0, true), "{ran:?}");
}

#[test]
fn hints_name_the_data_directory_that_was_given() {
    let case = CliFixture::empty();
    let data = case.path("other data");
    let data = data.to_str().expect("text");
    run_program(&case, &["--data", data, "exec", "--", "sh", "-c", "echo a > a"]);

    let ran = run_program(&case, &["--data", data, "undo"]);

    assert!(ran.err.contains("`turnstone --data '~/other data' redo` reverses"), "{ran:?}");
    let ran = run_program(&case, &["--data", data, "redo", "--path", "typo", "--json"]);
    assert!(!ran.err.contains("undo --dry-run"), "{ran:?}");
}
