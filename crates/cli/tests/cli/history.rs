//! `turnstone jump`, `checkpoint`, `fork`, `diff` and `log`: any point of a session, and copies of it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exec::{exec_shell, read_log, run_program, run_program_in, start_program};
use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::project_worktree::run_git;

fn write_file(case: &CliFixture, name: &str, text: &str) {
    fs_err::write(case.path("p").join(name), text).expect("written");
}

fn read_if_exists(dir: &Path, name: &str) -> Option<String> {
    fs_err::read_to_string(dir.join(name)).ok()
}

fn parse_json(ran: &ProgramOutput) -> Value {
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A session of three commands, each of which writes `f`; its id and those of its turns.
fn run_three_turns(case: &CliFixture) -> (String, Vec<String>) {
    write_file(case, "f", "0\n");
    assert_eq!(run_program(case, &["exec", "--new", "--", "sh", "-c", "echo 1 >> f"]).code, 0);
    let session = read_log(case)["session"].as_str().expect("a session").to_owned();
    for script in ["echo 2 >> f; echo g > g", "echo 3 >> f"] {
        let ran = run_program(case, &["exec", "--session", &session, "--", "sh", "-c", script]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let log = parse_json(&run_program(case, &["log", &session, "--json"]));
    let entries = log["entries"].as_array().expect("entries").clone();
    let turns = entries.iter().map(|it| it["id"].as_str().expect("an id").to_owned()).collect();
    (session, turns)
}

#[test]
fn jump_moves_to_any_point_and_dry_run_previews() {
    let case = CliFixture::empty();
    let (_, turns) = run_three_turns(&case);
    let dir = case.path("p");
    let ran = run_program(&case, &["jump", &turns[0], "--dry-run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "restore    f\nremove     g\n");
    assert!(ran.err.contains("no file was changed"), "{}", ran.err);
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n3\n"));

    let ran = run_program(&case, &["jump", &turns[0]]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("the conversation is now before msg_"), "{}", ran.err);
    assert_eq!(
        (read_if_exists(&dir, "f").as_deref(), read_if_exists(&dir, "g")),
        (Some("0\n1\n"), None)
    );
    let ran = run_program(&case, &["jump", &format!("before:{}", turns[2])]);
    assert_eq!((ran.code, read_if_exists(&dir, "f").as_deref()), (0, Some("0\n1\n2\n")), "{ran:?}");
    // The command that was named brings it all back.
    let (_, command) = ran.err.split_once("`turnstone ").expect("a hint");
    let args: Vec<&str> = command.split('`').next().expect("quoted").split(' ').collect();
    let ran = run_program(&case, &args);
    assert!(ran.err.contains("the conversation is now at its end"), "{ran:?}");
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n3\n"));

    // Only files: the conversation stays.
    let ran = run_program(&case, &["jump", &turns[1], "--files", "--json"]);
    let report = parse_json(&ran);
    assert_eq!((&report["kind"], &report["dry_run"]), (&"jump".into(), &false.into()));
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n"));
    assert!(run_program(&case, &["status"]).out.contains("position  end of the conversation"));
    let ran = run_program(&case, &["jump", "nowhere"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("of this session matches \"nowhere\"\nhint: "));
}

#[test]
fn jump_keeps_human_edits_and_reports_conflict() {
    let case = CliFixture::empty();
    let (_, turns) = run_three_turns(&case);
    write_file(&case, "f", "0\n1\nzwei\n3\n");
    let ran = run_program(&case, &["jump", &turns[0]]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("conflict   f"), "{}", ran.out);
    assert_eq!(read_if_exists(&case.path("p"), "f").as_deref(), Some("0\n1\nzwei\n3\n"));
}

/// Proves R19.
#[test]
fn jump_reaches_an_abandoned_branch() {
    let case = CliFixture::empty();
    let (session, turns) = run_three_turns(&case);
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    let other = ["exec", "--session", &session, "--", "sh", "-c", "echo other >> f"];
    assert_eq!(run_program(&case, &other).code, 0);
    let dir = case.path("p");
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\nother\n"));

    let ran = run_program(&case, &["jump", &turns[2]]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("on a branch that a later prompt had abandoned"), "{}", ran.err);
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n3\n"));
    let all = run_program(&case, &["log", "--all"]);
    assert!(all.out.contains("  jump") && all.out.contains("  branch"), "{}", all.out);
}

#[test]
fn checkpoint_is_created_listed_used_and_removed() {
    let case = CliFixture::empty();
    run_three_turns(&case);
    let dir = case.path("p");
    let ran = run_program(&case, &["checkpoint", "before the rewrite"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    shell_in_session(&case, "echo 4 >> f");
    let listed = parse_json(&run_program(&case, &["checkpoint", "list", "--json"]));
    assert_eq!(listed[0]["name"], "before the rewrite");
    assert!(run_program(&case, &["checkpoint"]).out.contains("before the rewrite"));
    assert!(run_program(&case, &["log"]).out.contains("checkpoint  before the rewrite"));

    let ran = run_program(&case, &["diff", "--from", "before the rewrite", "--stat"]);
    assert!(ran.out.contains("modified") && ran.out.contains("+1"), "{ran:?}");
    assert_eq!(run_program(&case, &["jump", "before the rewrite"]).code, 0);
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n3\n"));

    assert_eq!(run_program(&case, &["checkpoint", "remove", "before the rewrite"]).code, 0);
    assert_eq!(
        parse_json(&run_program(&case, &["checkpoint", "list", "--json"])),
        Value::Array(Vec::new())
    );
    assert_eq!(run_program(&case, &["jump", "before the rewrite"]).code, 1);
    assert_eq!(run_program(&case, &["checkpoint", "remove", "before the rewrite"]).code, 1);
    assert_eq!(run_program(&case, &["checkpoint", " "]).code, 1);
}

fn shell_in_session(case: &CliFixture, script: &str) {
    let session = read_log(case)["session"].as_str().expect("a session").to_owned();
    let ran = run_program(case, &["exec", "--session", &session, "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn diff_shows_only_changes_of_session_turn_or_range() {
    let case = CliFixture::empty();
    let (session, turns) = run_three_turns(&case);
    write_file(&case, "mine", "a person's\n");
    let ran = run_program(&case, &["diff"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("diff --git a/f b/f\n"), "{}", ran.out);
    assert!(ran.out.contains("\n 0\n+1\n+2\n+3\n") && !ran.out.contains("mine"), "{}", ran.out);
    assert_eq!(ran.err, "2 files changed, 4 lines added, 0 lines removed\nevidence: 2 traced\n");
    let ran = run_program(&case, &["diff", "--turn", &turns[1], "--stat"]);
    assert_eq!(ran.out, "modified  +1  -0  traced  f\nadded     +1  -0  traced  g\n", "{ran:?}");
    let shown = parse_json(&run_program(
        &case,
        &["diff", &session, "--from", &turns[2], "--to", &turns[0], "--json"],
    ));
    assert_eq!(shown["summary"]["deletions"], 3, "the other way round: {shown}");
    assert_eq!(shown["files"][1]["status"], "deleted");
    let coloured = run_program(&case, &["diff", "--color", "always"]);
    assert!(coloured.out.contains("\u{1b}[32m+1\u{1b}[0m"), "{:?}", coloured.out);

    // The row of the session says the same.
    let listed = parse_json(&run_program(&case, &["session", "list", "--json"]));
    assert_eq!(listed["sessions"][0]["summary"]["additions"], 4, "{listed}");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    let listed = parse_json(&run_program(&case, &["session", "list", "--json"]));
    assert_eq!(listed["sessions"][0]["summary"]["additions"], 3, "{listed}");
    assert_eq!(run_program(&case, &["diff", "--turn", "zzz"]).code, 1);
    assert_eq!(run_program(&case, &["diff", "--message", "zzz"]).code, 1);
    assert_eq!(run_program(&case, &["diff", "--turn", "a", "--from", "b"]).code, 2);
}

/// Proves R40.
#[test]
fn fork_is_independent_and_origin_is_shown_on_both_sides() {
    let case = CliFixture::empty();
    let (session, turns) = run_three_turns(&case);
    let ran = run_program(&case, &["fork", "--at", &turns[1]]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let copy = ran.out.trim().to_owned();
    let shown = parse_json(&run_program(&case, &["log", &copy, "--json"]));
    assert_eq!(shown["origin"]["session"], Value::from(session.clone()));
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(1), "{shown}");
    assert!(
        run_program(&case, &["log", &copy]).out.contains(&format!("forked from {session}, before"))
    );
    assert!(run_program(&case, &["log", &session]).out.contains(&format!("fork {copy}")));
    assert_eq!(run_program(&case, &["fork", "--at", "nothing"]).code, 1);
    let ran = run_program(&case, &["fork", &session, "--worktree"]);
    assert_eq!(ran.code, 1, "no repository: {ran:?}");
    assert!(
        ran.err.contains("has no git repository\nhint: a worktree needs a git repository"),
        "{}",
        ran.err
    );
}

#[test]
fn diff_of_binary_files_is_applied_by_git() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/picture"), [0, 1, 2, 3]).expect("written");
    exec_shell(&case, "printf '\\000\\377' > picture; printf '\\000x' > new");
    let ran = run_program(&case, &["diff"]);
    assert_eq!((ran.code, ran.err.contains("binary")), (0, false), "{ran:?}");
    fs_err::write(case.path("patch"), &ran.out).expect("written");
    let read = || ["picture", "new"].map(|it| fs_err::read(case.path("p").join(it)).ok());
    let after = read();
    assert!(run_program(&case, &["diff", "--stat"]).out.contains("binary"));
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_ne!(read(), after);
    run_git(&case.path("p"), &["apply", "../patch"]);
    assert_eq!(read(), after);
}

/// The path of a worktree from its JSON form.
fn worktree_path(case: &CliFixture, plan: &str) -> PathBuf {
    case.path(plan.strip_prefix("~/").expect("below the data"))
}

/// Proves R12.
#[test]
fn fork_into_worktree_has_files_of_the_point_and_own_undo() {
    let case = CliFixture::empty();
    let git = "git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q \
               --allow-empty -m one";
    exec_shell(&case, git);
    let (session, turns) = run_three_turns(&case);
    let ran = run_program(&case, &["fork", "--at", &turns[2], "--worktree=other-way", "--json"]);
    let made = parse_json(&ran);
    assert_eq!(made["worktree"]["branch"], "turnstone/other-way");
    let dir = worktree_path(&case, made["worktree"]["directory"].as_str().expect("a directory"));
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n"), "{made}");
    assert_eq!(read_if_exists(&dir, "g").as_deref(), Some("g\n"), "never committed");

    let inside = dir.strip_prefix(case.path("")).expect("below").to_string_lossy().into_owned();
    let ran = run_program_in(&case, &inside, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        (read_if_exists(&dir, "f").as_deref(), read_if_exists(&dir, "g")),
        (Some("0\n1\n"), None)
    );
    assert_eq!(read_file(&case.path("p/f")), "0\n1\n2\n3\n", "the original's files stay");
    assert_eq!(run_program(&case, &["session", "delete", &session, "--yes"]).code, 0);
    assert_eq!(run_program_in(&case, &inside, &["redo"]).code, 0);
    assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n"));
}

#[test]
fn exec_runs_in_its_own_worktree() {
    let case = CliFixture::empty();
    let git = "git init -q -b main . && echo f > f && git add f && \
               git -c user.name=a -c user.email=a@b commit -q -m one";
    exec_shell(&case, git);
    let ran =
        run_program(&case, &["exec", "--worktree=apart", "--", "sh", "-c", "pwd; echo x > new"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let dir = worktree_path(&case, ran.out.trim());
    assert!(ran.err.contains("in worktree apart"), "{}", ran.err);
    assert_eq!(
        (read_if_exists(&dir, "new").as_deref(), read_if_exists(&case.path("p"), "new")),
        (Some("x\n"), None)
    );
    // The same name is the same worktree; undo works there.
    let ran = run_program(&case, &["exec", "--new", "--worktree=apart", "--", "cat", "new"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "x\n"), "{ran:?}");
    let inside = dir.strip_prefix(case.path("")).expect("below").to_string_lossy().into_owned();
    let listed = parse_json(&run_program_in(&case, &inside, &["session", "list", "--json"]));
    let mut all = listed["sessions"].as_array().expect("a list").iter();
    let first = all.find(|it| it["title"] != "cat new");
    let first = first.expect("the first command")["id"].as_str().expect("an id").to_owned();
    assert_eq!(run_program_in(&case, &inside, &["undo", "--session", &first]).code, 0);
    assert_eq!(read_if_exists(&dir, "new"), None);
}

/// Sessions somebody sees, and worktrees by whether they are ready.
fn sessions_and_worktrees(case: &CliFixture) -> (usize, Vec<(String, bool)>) {
    let sessions = parse_json(&run_program(case, &["session", "list", "--all", "--json"]));
    let listed = parse_json(&run_program(case, &["worktree", "list", "--json"]));
    let row = |it: &Value| {
        (it["name"].as_str().expect("a name").to_owned(), it["ready"] == Value::Bool(true))
    };
    let worktrees = listed.as_array().expect("a list").iter().map(row).collect();
    (sessions["sessions"].as_array().expect("a list").len(), worktrees)
}

/// Proves R12.
#[test]
fn killed_fork_leaves_no_partial_session() {
    let case = CliFixture::empty();
    let git = "git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q \
               --allow-empty -m one";
    exec_shell(&case, git);
    let (session, _) = run_three_turns(&case);
    let (mut seen, mut whole) = (sessions_and_worktrees(&case).0, 0);
    for round in 0..8 {
        let mut child = start_program(&case, &["fork", &session, "--worktree"]);
        std::thread::sleep(std::time::Duration::from_millis(45 * round));
        child.kill().expect("killed, or over");
        child.wait().expect("reaped");
        let (sessions, worktrees) = sessions_and_worktrees(&case);
        assert!(sessions <= seen + 1, "round {round}: at most the copy is new");
        if sessions > seen {
            whole += 1;
            let listed = parse_json(&run_program(&case, &["session", "list", "--all", "--json"]));
            let directory =
                listed["sessions"][0]["directory"].as_str().expect("a directory").to_owned();
            let dir = worktree_path(&case, &directory);
            assert_eq!(read_if_exists(&dir, "f").as_deref(), Some("0\n1\n2\n3\n"), "round {round}");
        }
        seen = sessions;
        for (name, ready) in worktrees {
            if !ready {
                let ran = run_program(&case, &["worktree", "remove", &name, "--force"]);
                assert_eq!(ran.code, 0, "round {round}: {ran:?}");
            }
        }
    }
    let ran = run_program(&case, &["fork", &session, "--worktree"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(sessions_and_worktrees(&case).0, seen + 1, "{whole} went through before");
    assert_eq!(run_program(&case, &["doctor"]).code, 0);
}

#[test]
fn worktree_dry_run_prints_plan_and_changes_nothing() {
    let case = CliFixture::empty();
    let git = "git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q \
               --allow-empty -m one";
    exec_shell(&case, git);
    assert_eq!(run_program(&case, &["worktree", "create", "tried"]).code, 0);
    let ran = run_program(&case, &["worktree", "remove", "tried", "--dry-run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("remove "), "{}", ran.out);
    assert!(ran.out.contains("branch    turnstone/tried"), "{}", ran.out);
    let listed = parse_json(&run_program(&case, &["worktree", "list", "--json"]));
    let dir = listed[0]["directory"].as_str().expect("a directory").to_owned();
    let dir = worktree_path(&case, &dir);
    fs_err::write(dir.join("only"), "x").expect("written");

    for action in ["remove", "reset"] {
        let ran = run_program(&case, &["worktree", action, "tried", "--dry-run", "--json"]);
        assert_eq!(ran.code, 1, "without --force it would be refused: {ran:?}");
        let plan: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(plan["lost"]["changes"][0], "only");
        let ran = run_program(&case, &["worktree", action, "tried", "--dry-run", "--force"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(read_if_exists(&dir, "only").as_deref(), Some("x"));
}
