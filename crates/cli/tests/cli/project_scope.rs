//! Commands act on the project of their directory, and on no other.

use std::path::Path;

use crate::exec::{TEST_PATH, run_program_in};
use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::project_worktree::run_git;

fn exec_in(case: &CliFixture, place: &str, script: &str) {
    let ran = run_program_in(case, place, &["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Runs the program in a directory outside of the fixture, or with another home.
fn run_at(case: &CliFixture, directory: &Path, home: &str, args: &[&str]) -> ProgramOutput {
    let mut command = case.command("p", args);
    command.env("PATH", TEST_PATH).env("HOME", case.path(home)).current_dir(directory);
    case.run_command(&mut command)
}

fn assert_no_session(ran: &ProgramOutput) {
    assert!(ran.code == 1 && ran.err.contains("no session in "), "{ran:?}");
}

/// Proves R31.
#[test]
fn undo_above_a_project_changes_nothing() {
    for with_git in [false, true] {
        let case = CliFixture::empty();
        if with_git {
            run_git(&case.path("p"), &["init", "-q"]);
        }
        exec_in(&case, "p", "echo x > f");
        for above in [case.path(""), "/".into()] {
            for command in ["undo", "log", "diff"] {
                assert_no_session(&run_at(&case, &above, "home", &[command]));
            }
        }
        assert_eq!(read_file(&case.path("p/f")), "x\n");
        let listed = run_at(&case, &case.path(""), "home", &["session", "list", "--json"]);
        assert!(listed.out.contains("\"sessions\": []"), "{listed:?}");
    }
}

/// Proves R31.
#[test]
fn undo_names_its_project() {
    let case = CliFixture::empty();
    exec_in(&case, "p", "echo x > f");
    let ran = run_program_in(&case, "p/src", &["undo", "--dry-run"]);
    assert!(ran.code == 0 && ran.err.contains("undoing in ~/p: "), "{ran:?}");
    let ran = run_program_in(&case, "p", &["undo", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["project"]["directory"], "~/p", "{report}");
    assert!(report["project"]["id"].is_string(), "{report}");
}

/// Proves R31.
#[test]
fn repository_without_sessions_is_not_part_of_the_folder_around_it() {
    let case = CliFixture::empty();
    exec_in(&case, "p", "echo x > f");
    fs_err::create_dir(case.path("p/repository")).expect("made");
    run_git(&case.path("p/repository"), &["init", "-q"]);
    assert_no_session(&run_program_in(&case, "p/repository", &["undo"]));
    assert_eq!(read_file(&case.path("p/f")), "x\n");
}

/// Proves R31: the home directory and `/tmp` are not captured as a whole, so nothing below is part of them.
#[test]
fn exec_in_a_shared_directory_does_not_claim_what_is_below() {
    let case = CliFixture::empty();
    fs_err::create_dir_all(case.path("home/a")).expect("made");
    fs_err::create_dir_all(case.path("home/b")).expect("made");
    let ran = run_at(&case, &case.path("home"), "home", &["exec", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_no_session(&run_at(&case, &case.path("home/a"), "home", &["undo"]));

    let write = ["exec", "--", "sh", "-c", "echo x > f"];
    assert_eq!(run_at(&case, &case.path("home/a"), "home", &write).code, 0);
    assert_no_session(&run_at(&case, &case.path("home/b"), "home", &["undo"]));
    let ran = run_at(&case, &case.path("home/a"), "home", &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("home/a/f").exists());

    // The temporary directory of the system is such a directory too.
    let tmp = Path::new("/tmp");
    assert_eq!(run_at(&case, tmp, "home", &["exec", "--", "true"]).code, 0);
    let below = tempfile::tempdir_in(tmp).expect("temporary directory");
    assert_no_session(&run_at(&case, below.path(), "home", &["undo"]));
}

/// Proves R31.
#[test]
fn session_of_a_plain_subdirectory_is_visible_from_the_captured_root() {
    let case = CliFixture::empty();
    exec_in(&case, "p", "echo x > f");
    exec_in(&case, "p/src", "echo y > g");
    let ran = run_program_in(&case, "p", &["session", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "{listed}");
    let ran = run_program_in(&case, "p", &["log"]);
    assert!(ran.out.contains("echo y > g"), "{ran:?}");
    let ran = run_program_in(&case, "p", &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/src/g").exists() && case.path("p/f").exists());
}
