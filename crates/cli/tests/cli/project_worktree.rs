//! `turnstone project` and `turnstone worktree`: relinking, and no loss of user data.

use std::path::Path;

use serde_json::Value;

use crate::exec::{await_file, run_program_in};
use crate::fixture::{CliFixture, ProgramOutput};

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
pub(crate) fn run_git(dir: &Path, args: &[&str]) {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn fixture_with_repository() -> CliFixture {
    let case = CliFixture::empty();
    let dir = case.path("p");
    run_git(&dir, &["init", "-q"]);
    fs_err::write(dir.join("f"), "one").expect("written");
    run_git(&dir, &["add", "."]);
    run_git(&dir, &["commit", "-q", "-m", "one"]);
    case
}

fn run_program(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    run_program_in(case, "p", args)
}

fn parse_json(ran: &ProgramOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A checkout next to the repository of the fixture.
fn create_worktree(case: &CliFixture) -> std::path::PathBuf {
    let ran = run_program(case, &["worktree", "create", "other"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    case.path(ran.out.trim().strip_prefix("~/").expect("below the data"))
}

/// Proves R39.
#[test]
fn exec_records_what_it_changes_in_another_worktree() {
    let case = fixture_with_repository();
    let other = create_worktree(&case);
    let (here, there) = (case.path("p/here"), other.join("there"));
    let script = format!(
        "echo x > here; echo y > '{}'; echo z > '{}'",
        there.display(),
        other.join("f").display()
    );

    let ran = run_program(&case, &["exec", "--", "sh", "-c", &script]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("2 changes in other worktrees of this project"), "{}", ran.err);
    let log = parse_json(&run_program(&case, &["log", "--json"]));
    assert_eq!(log["entries"][0]["files"].as_array().map(Vec::len), Some(3), "{log}");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!here.exists() && !there.exists());
    assert_eq!(fs_err::read_to_string(other.join("f")).expect("read"), "one");
    let quiet = run_program(&case, &["exec", "--", "true"]);
    assert!(!quiet.err.contains("worktree"), "{}", quiet.err);
}

/// Proves R39.
#[test]
fn exec_does_not_claim_what_another_session_does_in_another_worktree() {
    let case = fixture_with_repository();
    let other = create_worktree(&case);
    std::thread::scope(|scope| {
        let script = "touch ../ready; while [ ! -e ../enough ]; do sleep 0.05; done; echo x > here";
        let long = scope.spawn(|| run_program(&case, &["exec", "--", "sh", "-c", script]));
        await_file(&case.path("ready"));
        let place = other.to_str().expect("text");
        let theirs = run_program_in(&case, place, &["exec", "--", "sh", "-c", "echo y > theirs"]);
        fs_err::write(case.path("enough"), "").expect("written");
        let long = long.join().expect("ends");

        assert_eq!((long.code, theirs.code), (0, 0), "{long:?} {theirs:?}");
        assert!(!long.err.contains("worktree"), "{}", long.err);
        let ran = run_program(&case, &["undo"]);
        assert_eq!((ran.code, other.join("theirs").exists()), (0, true), "{ran:?}");
        let ran = run_program_in(&case, place, &["undo"]);
        assert_eq!((ran.code, other.join("theirs").exists()), (0, false), "{ran:?}");
    });
}

/// Proves R39.
#[test]
fn untraced_exec_names_what_changed_in_another_worktree() {
    let case = fixture_with_repository();
    let there = create_worktree(&case).join("there");
    let script = format!("echo y > '{}'", there.display());

    let ran = run_program(&case, &["exec", "--no-trace", "--", "sh", "-c", &script]);

    assert!(ran.err.contains("there in another worktree changed meanwhile"), "{}", ran.err);
    let ran = run_program(&case, &["undo"]);
    assert!(there.exists(), "{ran:?}");
}

#[test]
fn worktree_is_created_listed_and_removed_with_force() {
    let case = fixture_with_repository();
    let ran = run_program(&case, &["worktree", "create", "Try It"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let directory = case.path(ran.out.trim().strip_prefix("~/").expect("below the data"));
    assert!(directory.ends_with("try-it") && directory.join("f").exists());
    assert!(ran.err.contains("created worktree try-it on branch turnstone/try-it"), "{}", ran.err);
    let listed = parse_json(&run_program(&case, &["worktree", "list", "--json"]));
    assert_eq!((&listed[0]["name"], &listed[0]["made"]), (&"try-it".into(), &true.into()));

    fs_err::write(directory.join("new"), "only here").expect("written");
    let ran = run_program(&case, &["worktree", "remove", "try-it"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("1 uncommitted file") && ran.err.contains("--force"), "{}", ran.err);
    let ran = run_program(&case, &["worktree", "remove", "."]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(case.path("p/f").exists());

    let ran = run_program(&case, &["worktree", "remove", "try-it", "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("its previous files are in capture "), "{}", ran.err);
    assert!(!directory.exists());
}

#[test]
fn project_removal_keeps_its_directory() {
    let case = fixture_with_repository();
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", "echo two > f"]).code, 0);
    let listed = parse_json(&run_program(&case, &["project", "list", "--json"]));
    let id = listed[0]["project"]["id"].as_str().expect("an id").to_owned();
    assert_eq!((&listed[0]["sessions"], &listed[0]["exists"]), (&1.into(), &true.into()));

    let plan = run_program(&case, &["project", "remove", &id[..8], "--dry-run"]);
    assert_eq!(plan.out.lines().count(), 2, "{plan:?}");
    let ran = run_program(&case, &["project", "remove", &id]);
    assert_eq!(ran.code, 1, "not confirmed: {ran:?}");
    assert_eq!(run_program(&case, &["project", "remove", &id, "--yes"]).code, 0);

    assert_eq!(
        parse_json(&run_program(&case, &["project", "list", "--json"])),
        Value::Array(Vec::new())
    );
    assert!(case.path("p/f").exists() && case.path("p/.git").exists());
}

#[test]
fn project_relink_moves_sessions_along() {
    let case = CliFixture::empty();
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", "echo two > f"]).code, 0);
    fs_err::rename(case.path("p"), case.path("moved")).expect("moved");
    let ran = run_program_in(&case, "q", &["project", "list"]);
    assert!(ran.out.contains("gone") && ran.err.contains("project relink"), "{ran:?}");
    let listed = parse_json(&run_program_in(&case, "q", &["project", "list", "--json"]));
    let id = listed[0]["project"]["id"].as_str().expect("an id").to_owned();

    let ran = run_program_in(&case, "q", &["project", "relink", &id, "../moved"]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 session moved to project "), "{}", ran.err);
    assert_eq!(run_program_in(&case, "moved", &["undo"]).code, 0);
    assert!(!case.path("moved/f").exists());
}

/// A refused command stores nothing.
#[test]
fn refused_worktree_commands_store_no_project() {
    let case = CliFixture::empty();
    for args in [
        &["worktree", "create", "x"][..],
        &["exec", "--worktree=x", "--", "true"],
        &["worktree", "remove", "x"],
        &["worktree", "list"],
    ] {
        let ran = run_program(&case, args);
        assert_eq!(ran.code == 0, args.contains(&"list"), "{args:?}: {ran:?}");
        let listed = parse_json(&run_program(&case, &["project", "list", "--json"]));
        assert_eq!(listed.as_array().map(Vec::len), Some(0), "{args:?}: {listed}");
    }
    run_git(&case.path("p"), &["init", "-q"]);
    let ran = run_program(&case, &["worktree", "create", "x"]);
    assert!(ran.code == 1 && ran.err.contains("has no commit yet"), "{ran:?}");
    let listed = parse_json(&run_program(&case, &["project", "list", "--json"]));
    assert_eq!(listed.as_array().map(Vec::len), Some(0), "{listed}");
}

#[test]
fn exec_warns_about_an_invalid_rule_file() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/turnstone.json"), "{ nonsense").expect("written");
    let ran = run_program(&case, &["exec", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("turnstone.json"), "{}", ran.err);
    assert!(ran.err.contains("hint: correct the file"), "{}", ran.err);
}
