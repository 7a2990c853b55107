//! `turnstone project` and `turnstone worktree`: relinking, and no loss of user data.

use std::path::Path;

use serde_json::Value;

use crate::exec::run_program_in;
use crate::fixture::{CliFixture, ProgramOutput};

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
fn run_git(dir: &Path, args: &[&str]) {
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

#[test]
fn worktree_is_created_listed_and_removed_with_force() {
    let case = fixture_with_repository();
    let ran = run_program(&case, &["worktree", "create", "Try It"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let directory = case.path(ran.out.trim().strip_prefix("~/").expect("below the data"));
    assert!(directory.ends_with("try-it") && directory.join("f").exists());
    assert!(ran.err.contains("created worktree try-it on branch opencode/try-it"), "{}", ran.err);
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
