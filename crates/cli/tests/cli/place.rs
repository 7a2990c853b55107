//! `turnstone project` and `turnstone worktree`: told where things are, and nothing of the user goes.

use std::path::Path;

use serde_json::Value;

use crate::case::{Case, Ran};
use crate::exec::run_in;

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
fn git(dir: &Path, words: &[&str]) {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn repository() -> Case {
    let case = Case::empty();
    let dir = case.place("p");
    git(&dir, &["init", "-q"]);
    fs_err::write(dir.join("f"), "one").expect("written");
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "-q", "-m", "one"]);
    case
}

fn run(case: &Case, words: &[&str]) -> Ran {
    run_in(case, "p", words)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_worktree_is_made_listed_refused_and_removed() {
    let case = repository();
    let ran = run(&case, &["worktree", "create", "Try It"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let directory = case.place(ran.out.trim().strip_prefix("~/").expect("below the data"));
    assert!(directory.ends_with("try-it") && directory.join("f").exists());
    assert!(ran.err.contains("made worktree try-it on branch opencode/try-it"), "{}", ran.err);
    let listed = json(&run(&case, &["worktree", "list", "--json"]));
    assert_eq!((&listed[0]["name"], &listed[0]["made"]), (&"try-it".into(), &true.into()));

    fs_err::write(directory.join("new"), "only here").expect("written");
    let ran = run(&case, &["worktree", "remove", "try-it"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("1 uncommitted paths") && ran.err.contains("--force"), "{}", ran.err);
    let ran = run(&case, &["worktree", "remove", "."]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(case.place("p/f").exists());

    let ran = run(&case, &["worktree", "remove", "try-it", "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("its files before are snapshot "), "{}", ran.err);
    assert!(!directory.exists());
}

#[test]
fn a_project_is_listed_and_removed_and_its_directory_stays() {
    let case = repository();
    assert_eq!(run(&case, &["exec", "--", "sh", "-c", "echo two > f"]).code, 0);
    let listed = json(&run(&case, &["project", "list", "--json"]));
    let id = listed[0]["project"]["id"].as_str().expect("an id").to_owned();
    assert_eq!((&listed[0]["sessions"], &listed[0]["exists"]), (&1.into(), &true.into()));

    let plan = run(&case, &["project", "remove", &id[..8], "--dry-run"]);
    assert_eq!(plan.out.lines().count(), 2, "{plan:?}");
    let ran = run(&case, &["project", "remove", &id]);
    assert_eq!(ran.code, 1, "nobody said yes: {ran:?}");
    assert_eq!(run(&case, &["project", "remove", &id, "--yes"]).code, 0);

    assert_eq!(json(&run(&case, &["project", "list", "--json"])), Value::Array(Vec::new()));
    assert!(case.place("p/f").exists() && case.place("p/.git").exists());
}

#[test]
fn a_directory_that_went_elsewhere_is_told_and_its_sessions_are_there() {
    let case = Case::empty();
    assert_eq!(run(&case, &["exec", "--", "sh", "-c", "echo two > f"]).code, 0);
    fs_err::rename(case.place("p"), case.place("moved")).expect("moved");
    let ran = run_in(&case, "q", &["project", "list"]);
    assert!(ran.out.contains("gone") && ran.err.contains("project relink"), "{ran:?}");
    let listed = json(&run_in(&case, "q", &["project", "list", "--json"]));
    let id = listed[0]["project"]["id"].as_str().expect("an id").to_owned();

    let ran = run_in(&case, "q", &["project", "relink", &id, "../moved"]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("1 session moved along"), "{}", ran.err);
    assert_eq!(run_in(&case, "moved", &["undo"]).code, 0);
    assert!(!case.place("moved/f").exists());
}
