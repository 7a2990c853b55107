//! Sessions of a directory and of one inside of it, each with a store of its own: undo of either is exact.

use std::process::Child;

use crate::exec::{await_file, run_program, run_program_in, start_program_in};
use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::project_worktree::run_git;

/// A directory whose first command ran before one in the directory above.
fn inner_first() -> CliFixture {
    let case = CliFixture::empty();
    fs_err::create_dir_all(case.path("p/sub")).expect("made");
    fs_err::write(case.path("p/sub/f"), "1\n").expect("written");
    assert_ok(&run_program_in(&case, "p/sub", &["exec", "--", "true"]));
    assert_ok(&run_program(&case, &["exec", "--", "true"]));
    case
}

/// A repository inside of another one.
fn nested_repository() -> CliFixture {
    let case = inner_first();
    for place in ["p", "p/sub"] {
        run_git(&case.path(place), &["init", "-q"]);
    }
    case
}

fn assert_ok(ran: &ProgramOutput) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn exec(case: &CliFixture, place: &str, script: &str) {
    assert_ok(&run_program_in(case, place, &["exec", "--", "sh", "-c", script]));
}

/// Starts a command that runs `script` and then waits for the file `NAME.go` above the project.
fn start(case: &CliFixture, place: &str, traced: bool, name: &str, script: &str) -> Child {
    let signs = case.path(name);
    let signs = signs.display();
    let script =
        format!("{script}; touch {signs}.up; while [ ! -e {signs}.go ]; do sleep 0.02; done");
    let mut args = vec!["exec"];
    args.extend((!traced).then_some("--no-trace"));
    args.extend(["--", "sh", "-c", &script]);
    let child = start_program_in(case, place, &args);
    await_file(&case.path(&format!("{name}.up")));
    child
}

fn finish(case: &CliFixture, name: &str, mut child: Child) {
    fs_err::write(case.path(&format!("{name}.go")), "").expect("written");
    assert!(child.wait().expect("ends").success());
}

fn text(case: &CliFixture) -> String {
    read_file(&case.path("p/sub/f"))
}

#[test]
fn turns_of_both_directories_are_undone_one_after_the_other() {
    for case in [inner_first(), nested_repository()] {
        exec(&case, "p/sub", "echo 2 > f; echo new > made");
        exec(&case, "p", "echo 3 > sub/f; rm sub/made; echo x > top");
        let ran = run_program_in(&case, "p/sub", &["undo"]);
        assert_eq!((ran.code, text(&case).as_str()), (4, "3\n"), "{ran:?}");
        assert_ok(&run_program(&case, &["undo"]));
        assert_eq!(text(&case), "2\n");
        assert_eq!(read_file(&case.path("p/sub/made")), "new\n");
        assert_ok(&run_program_in(&case, "p/sub", &["undo"]));
        assert_eq!(text(&case), "1\n");
        assert!(!case.path("p/sub/made").exists() && !case.path("p/top").exists());
        assert_ok(&run_program_in(&case, "p/sub", &["redo"]));
        assert_ok(&run_program(&case, &["redo"]));
        assert_eq!(text(&case), "3\n");
    }
}

/// Proves R3: what both wrote at the same time is left alone, whichever of them is undone.
#[test]
fn file_that_commands_of_both_directories_wrote_is_contended() {
    for traced in [true, false] {
        for case in [inner_first(), nested_repository()] {
            let outer = start(&case, "p", traced, "outer", "echo outer >> sub/f; echo x > top");
            let inner = start(&case, "p/sub", traced, "inner", "echo inner >> f; echo x > made");
            finish(&case, "inner", inner);
            finish(&case, "outer", outer);

            let undo = run_program(&case, &["undo"]);
            assert_eq!((undo.code, text(&case).as_str()), (4, "1\nouter\ninner\n"), "{undo:?}");
            assert!(undo.out.contains("contended  sub/f  (may also have been changed"), "{undo:?}");
            assert!(!undo.err.contains("undo them together"), "that would not help: {undo:?}");
            assert!(!case.path("p/top").exists() && case.path("p/sub/made").exists());
            let undo = run_program_in(&case, "p/sub", &["undo"]);
            assert_eq!((undo.code, text(&case).as_str()), (4, "1\nouter\ninner\n"), "{undo:?}");
            assert!(undo.out.contains("contended  f  (may also have been changed"), "{undo:?}");
        }
    }
}

/// Proves R3: a window does not claim what an undo in the other directory wrote.
#[test]
fn command_above_does_not_claim_what_an_undo_below_writes() {
    for case in [inner_first(), nested_repository()] {
        exec(&case, "p/sub", "echo 2 > f");
        let outer = start(&case, "p", false, "outer", "echo x > top");
        assert_ok(&run_program_in(&case, "p/sub", &["undo"]));
        assert_eq!(text(&case), "1\n");
        finish(&case, "outer", outer);

        let undo = run_program(&case, &["undo"]);
        assert_eq!((undo.code, text(&case).as_str()), (4, "1\n"), "{undo:?}");
        assert!(undo.out.contains("contended  sub/f  (changed by opn_"), "{undo:?}");
        assert!(!case.path("p/top").exists());
    }
}

/// A command in the directory above runs one in the directory below: both saw the same file change.
#[test]
fn nested_command_below_is_undone_with_the_one_above() {
    for case in [inner_first(), nested_repository()] {
        let program = env!("CARGO_BIN_EXE_turnstone");
        let nested = "echo new > made; echo 2 > f";
        exec(&case, "p", &format!("echo x > top; cd sub; {program} exec -- sh -c '{nested}'"));

        assert_ok(&run_program(&case, &["undo"]));
        assert!(!case.path("p/top").exists() && !case.path("p/sub/made").exists());
        assert_eq!(text(&case), "1\n");
        assert_ok(&run_program(&case, &["redo"]));
        assert_eq!((text(&case).as_str(), case.path("p/sub/made").exists()), ("2\n", true));
    }
}
