//! A project is found again after its directory was moved; what is not sure is named, and nothing is changed.

use serde_json::Value;

use crate::exec::run_program_in;
use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::project_worktree::run_git;

/// How the directory `p` is versioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versioning {
    Plain,
    GitWithoutCommits,
    Git,
    GitWithOrigin,
}

const ALL: [Versioning; 4] =
    [Versioning::Plain, Versioning::GitWithoutCommits, Versioning::Git, Versioning::GitWithOrigin];

/// A project `p` with the file `f` and one turn that changed it from `one` to `two`.
pub(crate) fn fixture_with_turn(versioning: Versioning) -> CliFixture {
    let case = CliFixture::empty();
    let dir = case.path("p");
    fs_err::write(dir.join("f"), "one\n").expect("written");
    if versioning != Versioning::Plain {
        run_git(&dir, &["init", "-q"]);
    }
    if matches!(versioning, Versioning::Git | Versioning::GitWithOrigin) {
        run_git(&dir, &["add", "."]);
        run_git(&dir, &["commit", "-q", "-m", "one"]);
    }
    if versioning == Versioning::GitWithOrigin {
        run_git(&dir, &["remote", "add", "origin", "https://host.example/team/app.git"]);
    }
    exec_in(&case, "p", "echo two > f");
    case
}

pub(crate) fn exec_in(case: &CliFixture, place: &str, script: &str) {
    let ran = run_program_in(case, place, &["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

pub(crate) fn move_directory(case: &CliFixture, from: &str, to: &str) {
    fs_err::rename(case.path(from), case.path(to)).expect("moved");
}

/// Copies as `cp -r` does; `rm -r` of the original makes it a move to another file system.
#[expect(clippy::disallowed_methods, reason = "cp itself makes the copies of tests")]
pub(crate) fn copy_directory(case: &CliFixture, from: &str, to: &str) {
    let done = std::process::Command::new("cp")
        .arg("-r")
        .args([case.path(from), case.path(to)])
        .status()
        .expect("cp runs");
    assert!(done.success());
}

pub(crate) fn json_in(case: &CliFixture, place: &str, args: &[&str]) -> Value {
    let ran = run_program_in(case, place, args);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

pub(crate) fn project_ids(case: &CliFixture) -> Vec<String> {
    let listed = json_in(case, "q", &["project", "list", "--json"]);
    let id = |it: &Value| it["project"]["id"].as_str().expect("an id").to_owned();
    listed.as_array().expect("a list").iter().map(id).collect()
}

pub(crate) fn session_count(case: &CliFixture, place: &str) -> usize {
    let listed = json_in(case, place, &["session", "list", "--json"]);
    listed["sessions"].as_array().expect("a list").len()
}

fn assert_no_session(ran: &ProgramOutput, hint: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("no session in ") && ran.err.contains(hint), "{}", ran.err);
}

/// Proves R31.
#[test]
fn undo_works_in_a_moved_directory() {
    for versioning in ALL {
        let case = fixture_with_turn(versioning);
        move_directory(&case, "p", "p2");
        fs_err::create_dir_all(case.path("p2/src/deep")).expect("made");

        let ran = run_program_in(&case, "p2", &["undo"]);

        assert_eq!(ran.code, 0, "{versioning:?}: {ran:?}");
        assert!(ran.err.contains("has moved to ~/p2"), "{}", ran.err);
        assert!(!ran.err.contains("git"), "{versioning:?}: {}", ran.err);
        assert_eq!(read_file(&case.path("p2/f")), "one\n", "{versioning:?}");
        assert!(!case.path("p").exists());
        assert_eq!(session_count(&case, "p2"), 1);
        let log = run_program_in(&case, "p2", &["log"]);
        assert!(log.out.contains("+1 -1"), "{versioning:?}: {log:?}");
        let ran = run_program_in(&case, "p2/src/deep", &["redo"]);
        assert_eq!((ran.code, read_file(&case.path("p2/f")).as_str()), (0, "two\n"), "{ran:?}");
        assert_eq!(project_ids(&case).len(), 1, "{versioning:?}");
    }
}

/// Proves R31.
#[test]
fn every_command_finds_a_moved_directory() {
    for command in [
        &["log"][..],
        &["session", "list"],
        &["status"],
        &["diff"],
        &["undo", "--dry-run"],
        &["exec", "--", "true"],
    ] {
        let case = fixture_with_turn(Versioning::Plain);
        fs_err::create_dir_all(case.path("p/sub")).expect("made");
        move_directory(&case, "p", "p2");
        let ran = run_program_in(&case, "p2/sub", command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        assert_eq!(project_ids(&case).len(), 1, "{command:?}");
        let expected = if command[0] == "exec" { 2 } else { 1 };
        assert_eq!(session_count(&case, "p2"), expected, "{command:?}");
    }
}

/// Proves R31.
#[test]
fn exec_continues_a_session_of_a_moved_directory() {
    let case = fixture_with_turn(Versioning::Plain);
    let session = case.run_json(&["session", "list"])["sessions"][0]["id"].clone();
    let session = session.as_str().expect("an id").to_owned();
    move_directory(&case, "p", "p2");

    let ran = run_program_in(&case, "p2", &["exec", "--session", &session, "--", "true"]);

    assert_eq!((ran.code, session_count(&case, "p2")), (0, 1), "{ran:?}");
}

/// Proves R31.
#[test]
fn moved_directory_is_found_although_its_old_path_is_taken() {
    let case = fixture_with_turn(Versioning::Plain);
    move_directory(&case, "p", "p2");
    fs_err::create_dir(case.path("p")).expect("made");
    fs_err::write(case.path("p/f"), "mine\n").expect("written");

    let ran = run_program_in(&case, "p2", &["undo"]);

    assert_eq!((ran.code, read_file(&case.path("p2/f")).as_str()), (0, "one\n"), "{ran:?}");
    assert_no_session(&run_program_in(&case, "p", &["undo"]), "turnstone exec");
    assert_eq!(read_file(&case.path("p/f")), "mine\n");
}

/// Proves R31.
#[test]
fn copy_of_a_living_project_takes_nothing_from_it() {
    for versioning in ALL {
        let case = fixture_with_turn(versioning);
        copy_directory(&case, "p", "p2");
        let ran = run_program_in(&case, "p2", &["undo"]);
        let hint = if versioning == Versioning::Git { "project relink" } else { "turnstone exec" };
        assert_no_session(&ran, hint);
        assert_eq!(read_file(&case.path("p2/f")), "two\n", "{versioning:?}");
        assert_eq!(session_count(&case, "p"), 1, "{versioning:?}");
        assert_eq!(run_program_in(&case, "p", &["undo"]).code, 0, "{versioning:?}");
        assert_eq!(read_file(&case.path("p/f")), "one\n");
    }
}

/// Proves R31.
#[test]
fn unsure_move_names_the_project_and_changes_nothing() {
    for versioning in [Versioning::Plain, Versioning::GitWithoutCommits, Versioning::Git] {
        let case = fixture_with_turn(versioning);
        copy_directory(&case, "p", "p2");
        fs_err::remove_dir_all(case.path("p")).expect("removed");
        let id = project_ids(&case).remove(0);
        let hint = format!("`turnstone project relink {id}` links this directory to it");
        assert_no_session(&run_program_in(&case, "p2", &["undo"]), &hint);
        assert_eq!(read_file(&case.path("p2/f")), "two\n");
        assert_eq!(project_ids(&case), [id], "{versioning:?}");
    }
}

/// Proves R12 and R31.
#[test]
fn relink_after_exec_in_the_new_place_merges() {
    for versioning in [Versioning::Plain, Versioning::Git] {
        let case = fixture_with_turn(versioning);
        let id = project_ids(&case).remove(0);
        copy_directory(&case, "p", "p2");
        fs_err::remove_dir_all(case.path("p")).expect("removed");
        exec_in(&case, "p2", "echo new > g");
        assert_eq!((project_ids(&case).len(), session_count(&case, "p2")), (2, 1));

        let ran = run_program_in(&case, "p2", &["project", "relink", &id]);

        assert_eq!(ran.code, 0, "{versioning:?}: {ran:?}");
        assert_eq!(project_ids(&case).as_slice(), std::slice::from_ref(&id), "{versioning:?}");
        assert_eq!(session_count(&case, "p2"), 2, "{versioning:?}");
        let ran = run_program_in(&case, "p2", &["undo"]);
        assert_eq!(ran.code, 0, "{versioning:?}: {ran:?}");
        assert!(!case.path("p2/g").exists());
        let listed = json_in(&case, "p2", &["session", "list", "--json"]);
        let mut old = listed["sessions"].as_array().expect("a list").iter();
        let old = old.find(|it| it["title"].as_str().is_some_and(|title| title.contains("two")));
        let old = old.expect("the older session")["id"].as_str().expect("an id").to_owned();
        let ran = run_program_in(&case, "p2", &["log", &old]);
        assert!(ran.code == 0 && ran.out.contains("echo two"), "{ran:?}");
        assert!(ran.out.contains("+1 -1"), "{ran:?}");
        let ran = run_program_in(&case, "p2", &["undo", "--session", &old]);
        assert_eq!(ran.code, 0, "{versioning:?}: {ran:?}");
        assert_eq!(read_file(&case.path("p2/f")), "one\n", "{versioning:?}");
    }
}

/// Proves R31.
#[test]
fn relink_keeps_denials_of_the_merged_project() {
    let case = fixture_with_turn(Versioning::Plain);
    let id = project_ids(&case).remove(0);
    copy_directory(&case, "p", "p2");
    fs_err::remove_dir_all(case.path("p")).expect("removed");
    exec_in(&case, "p2", "true");
    let deny = ["permission", "set", "bash", "rm *", "deny"];
    assert_eq!(run_program_in(&case, "p2", &deny).code, 0);
    assert_eq!(run_program_in(&case, "p2", &["project", "relink", &id]).code, 0);
    let ran = run_program_in(&case, "p2", &["permission", "explain", "bash", "rm x"]);
    assert!(ran.out.starts_with("deny"), "{ran:?}");
}

/// What a clone claims of itself, its root commit and its origin, gives it no permission of the project.
#[test]
fn clone_inherits_denials_but_no_allowance_until_it_is_confirmed() {
    let case = fixture_with_turn(Versioning::GitWithOrigin);
    for rule in [["external_directory", "*", "allow"], ["bash", "rm *", "deny"]] {
        let set = ["permission", "set", rule[0], rule[1], rule[2]];
        assert_eq!(run_program_in(&case, "p", &set).code, 0);
    }
    copy_directory(&case, "p", "p2");
    let explain = |place: &str, permission: &str, pattern: &str| {
        let ran = run_program_in(&case, place, &["permission", "explain", permission, pattern]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.split([',', ' ']).next().unwrap_or_default().to_owned()
    };
    let ran = run_program_in(&case, "p2", &["exec", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(project_ids(&case).len(), 1, "it is one project");
    assert!(ran.err.contains("1 permission allowed there not in effect in this clone"), "{ran:?}");
    let status = run_program_in(&case, "p2", &["status"]);
    assert!(status.err.contains("not in effect in this clone"), "{status:?}");
    assert_eq!(json_in(&case, "p2", &["status", "--json"])["project"]["unconfirmed_clone"], true);
    assert_eq!(explain("p2", "external_directory", "/etc/*"), "ask");
    assert_eq!(explain("p2", "bash", "rm x"), "deny");
    assert_eq!(explain("p", "external_directory", "/etc/*"), "allow");

    // Neither does another worktree of its repository.
    run_git(&case.path("p2"), &["worktree", "add", "-q", "-b", "side", "../side"]);
    assert_eq!(run_program_in(&case, "side", &["exec", "--", "true"]).code, 0);
    assert_eq!(explain("side", "external_directory", "/etc/*"), "ask");

    let id = project_ids(&case).remove(0);
    let ran = run_program_in(&case, "p2", &["project", "relink", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(explain("p2", "external_directory", "/etc/*"), "allow");
    let status = run_program_in(&case, "p2", &["status"]);
    assert!(!status.err.contains("clone"), "{status:?}");
    for place in ["p", "side"] {
        assert_eq!(explain(place, "external_directory", "/etc/*"), "allow", "{place}");
    }
}
