//! `turnstone diff`: the patch holds every byte that changed, or says what it leaves out.

use serde_json::Value;

use crate::exec::{exec_shell, read_log, run_program};
use crate::fixture::CliFixture;
use crate::project_worktree::run_git;

/// The files of the project, by name.
fn read_files(case: &CliFixture, names: &[&str]) -> Vec<Option<Vec<u8>>> {
    names.iter().map(|name| fs_err::read(case.path("p").join(name)).ok()).collect()
}

/// Undoes the last command, applies the patch that `diff` printed before, and compares.
fn assert_patch_restores(case: &CliFixture, names: &[&str]) {
    let ran = run_program(case, &["diff"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs_err::write(case.path("patch"), &ran.out).expect("written");
    let after = read_files(case, names);
    assert_eq!(run_program(case, &["undo"]).code, 0);
    assert_ne!(read_files(case, names), after);
    run_git(&case.path("p"), &["apply", "../patch"]);
    assert!(read_files(case, names) == after, "the patch makes other files");
}

#[test]
fn diff_of_text_that_is_not_utf8_is_applied_by_git() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/menu.txt"), b"caf\xe9\ntea\n").expect("written");
    exec_shell(
        &case,
        "printf 'caf\\351\\nmat\\351\\n' > menu.txt; printf 'na\\357ve\\n' > new.txt",
    );
    assert_patch_restores(&case, &["menu.txt", "new.txt"]);
}

#[test]
fn diff_of_a_large_file_is_whole() {
    let case = CliFixture::empty();
    exec_shell(&case, "yes 'a line of some length' | head -c 18000000 > large");
    assert_patch_restores(&case, &["large"]);
}

#[test]
fn message_is_found_in_any_session_of_the_project() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo 1 > first");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(&case, &["session", "show", &session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    let prompt = shown["messages"][0]["info"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(run_program(&case, &["exec", "--new", "--", "sh", "-c", "echo 2 > second"]).code, 0);
    let ran = run_program(&case, &["diff", "--message", &prompt]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("first") && !ran.out.contains("second"), "{ran:?}");
}
