//! `turnstone undo`, `redo`, `log` and `status`: exact undo and helpful messages.

use serde_json::Value;

use crate::exec::{
    TEST_PATH, await_file, exec_shell, exec_untraced, read_log, run_program, run_program_in,
    start_program,
};
use crate::fixture::{CliFixture, read_file};

const TEN_LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn write_file(case: &CliFixture, name: &str, text: &str) {
    fs_err::write(case.path("p").join(name), text).expect("written");
}

fn read_file_in_project(case: &CliFixture, name: &str) -> String {
    read_file(&case.path("p").join(name))
}

#[test]
fn undo_keeps_later_edits_and_redo_restores_the_turn() {
    let case = CliFixture::empty();
    write_file(&case, "f", TEN_LINES);
    exec_shell(&case, "sed -i s/2/two/ f; echo x > new; mkdir sub; echo y > sub/z");
    write_file(&case, "f", &read_file_in_project(&case, "f").replace("9\n", "nine\n"));

    let ran = run_program(&case, &["undo", "--dry-run"]);
    assert_eq!(ran.out, "remove     new\nremove     sub/z\nmerge      f\n");
    assert!(
        ran.err.contains("2 files to remove, 1 file to merge (dry run: no file was changed)\n"),
        "{}",
        ran.err
    );
    assert_eq!(read_file_in_project(&case, "new"), "x\n");

    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.starts_with("undoing in ~/p: sh -c 'sed -i s/2/two/ f;"), "{}", ran.err);
    assert!(ran.err.ends_with("hint: `turnstone redo` reverses this undo\n"), "{}", ran.err);
    assert_eq!(read_file_in_project(&case, "f"), TEN_LINES.replace("9\n", "nine\n"));
    assert!(!case.path("p/new").exists() && !case.path("p/sub").exists());
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("has nothing left to undo\nhint: "), "{}", ran.err);

    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert_eq!(
        read_file_in_project(&case, "f"),
        TEN_LINES.replace("2\n", "two\n").replace("9\n", "nine\n")
    );
    assert_eq!(
        (
            read_file_in_project(&case, "new").as_str(),
            read_file_in_project(&case, "sub/z").as_str()
        ),
        ("x\n", "y\n")
    );
    let kinds: Vec<Value> = read_log(&case)["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|it| it["kind"].clone())
        .collect();
    assert_eq!(kinds, [Value::Null, "undo".into(), "redo".into()]);
}

#[test]
fn conflict_names_reason_and_restore_command() {
    let case = CliFixture::empty();
    write_file(&case, "f", TEN_LINES);
    exec_shell(&case, "sed -i s/2/two/ f; echo x > new");
    write_file(&case, "f", &TEN_LINES.replace("2\n", "zwei\n"));

    let ran = run_program(&case, &["undo"]);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(ran.out, "removed    new\nconflict   f  (the same lines have changed since)\n");
    assert_eq!(read_file_in_project(&case, "f"), TEN_LINES.replace("2\n", "zwei\n"), "left alone");
    let (_, command) = ran.err.split_once("`turnstone snapshot restore ").expect("a way out");
    let (restore_args, _) = command.split_once('`').expect("quoted");
    let mut args = vec!["snapshot", "restore"];
    args.extend(restore_args.split(' '));
    assert_eq!(run_program(&case, &args).code, 0, "{args:?}");
    assert_eq!(read_file_in_project(&case, "f"), TEN_LINES);
}

/// Proves R3.
#[test]
fn contended_path_is_kept_until_both_turns_are_undone() {
    let case = CliFixture::empty();
    write_file(&case, "plan", "plan\n");
    let slow = "echo one >> plan; touch ../wrote; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut one = start_program(&case, &["exec", "--title", "one", "--", "sh", "-c", slow]);
    await_file(&case.path("wrote"));
    let ran = exec_shell(&case, "echo two >> plan; echo x > mine");
    assert!(
        ran.err.starts_with("turnstone: another command is running here (one, ses_"),
        "{}",
        ran.err
    );
    let busy = run_program(&case, &["status", "--json"]);
    let busy: Value = serde_json::from_str(&busy.out).expect("JSON");
    assert_eq!(busy["at_work"].as_array().map(Vec::len), Some(1), "{busy}");
    fs_err::write(case.path("enough"), "").expect("written");
    assert!(one.wait().expect("ends").success());

    let listed = run_program(&case, &["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    let two = listed["sessions"].as_array().expect("a list").iter().find(|it| it["title"] != "one");
    let two = two.expect("the second session")["id"].as_str().expect("an id").to_owned();
    // Only paths of the filter are listed.
    let ran = run_program(&case, &["undo", "--session", &two, "--dry-run", "--path", "mine"]);
    assert_eq!(ran.out, "remove     mine\n", "only the second command wrote it: {ran:?}");
    let ran = run_program(&case, &["undo", "--session", &two]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.out.contains("contended  plan  (may also have been changed by trn_"),
        "{}",
        ran.out
    );
    assert_eq!(read_file_in_project(&case, "plan"), "plan\none\ntwo\n");

    let (_, command) = ran.err.split_once("together: `turnstone ").expect("a command");
    let args: Vec<&str> = command.split('`').next().expect("quoted").split(' ').collect();
    let ran = run_program(&case, &args);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read_file_in_project(&case, "plan"), "plan\n");
    assert_eq!(run_program(&case, &["redo", "--session", &two]).code, 0);
    assert_eq!(read_file_in_project(&case, "plan"), "plan\none\ntwo\n");
}

/// Proves R45.
#[test]
fn undo_in_a_session_is_refused_while_its_turn_runs() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > new");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let slow = "touch ../ready; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut child = start_program(&case, &["exec", "--session", &session, "--", "sh", "-c", slow]);
    await_file(&case.path("ready"));
    let ran = run_program(&case, &["undo", "--session", &session]);
    let second = run_program(&case, &["exec", "--session", &session, "--", "true"]);
    let status = run_program(&case, &["status"]);
    fs_err::write(case.path("enough"), "").expect("written");
    assert!(child.wait().expect("ends").success());
    assert_eq!((ran.code, read_file_in_project(&case, "new").as_str()), (4, "x\n"), "{ran:?}");
    assert_eq!(second.code, 125, "{second:?}");
    assert!(status.out.contains("turn      trn_"), "{}", status.out);
}

#[test]
fn undo_honours_path_files_conversation_and_named_only() {
    let case = CliFixture::empty();
    exec_untraced(&case, "echo a > a; echo b > src/b");
    let ran = run_program(&case, &["undo", "--named-only", "--dry-run"]);
    assert_eq!(ran.out.matches("not named by a tool").count(), 2, "{}", ran.out);
    let ran = run_program_in(&case, "p/src", &["undo", "--path", "b", "--files"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "removed    src/b\n"), "{ran:?}");
    assert_eq!(read_file_in_project(&case, "a"), "a\n");
    let ran = run_program(&case, &["undo", "--path", "../q"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let turn = read_log(&case)["entries"][0]["id"].as_str().expect("an id").to_owned();
    let ran = run_program(&case, &["undo", &turn, "--conversation"]);
    assert_eq!((ran.code, read_file_in_project(&case, "a").as_str()), (0, "a\n"), "{ran:?}");
    assert!(run_program(&case, &["status"]).out.contains("position  before \"sh -c"));
    assert_eq!(run_program(&case, &["undo", "trn_zzz"]).code, 1);
}

/// Proves R5.
#[test]
fn undo_reports_moved_head_and_keeps_commits() {
    let case = CliFixture::empty();
    write_file(&case, "f", "old\n");
    exec_shell(
        &case,
        "git init -q -b main . && git add f && git -c user.name=a -c user.email=a@b commit -qm one",
    );
    exec_shell(
        &case,
        "echo new > f; git -c user.name=a -c user.email=a@b commit -qam two; git switch -qc next",
    );
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let at = ran.err.find("git HEAD has moved: main ").expect("a note");
    assert!(ran.err[at..].contains("→ next ") && ran.err.contains("never commits"), "{}", ran.err);
    assert_eq!(read_file_in_project(&case, "f"), "old\n");
    let count = exec_shell(&case, "git rev-list --count HEAD");
    assert_eq!(count.out, "2\n");
}

/// Proves R2.
#[test]
fn undo_json_is_the_operation_with_window_paths() {
    let case = CliFixture::empty();
    exec_untraced(&case, "echo x > new");
    let ran = run_program(&case, &["undo", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["kind"], "undo");
    assert_eq!(report["dry_run"], false);
    assert_eq!(report["roots"][0]["report"]["removed"], serde_json::json!(["new"]));
    assert_eq!(report["roots"][0]["windows"], serde_json::json!(["new"]));
    let entry = &read_log(&case)["entries"][1];
    assert_eq!(entry["report"]["operation"], report["operation"]);
}

#[test]
fn missing_session_error_suggests_exec() {
    let case = CliFixture::empty();
    for command in ["undo", "redo", "log"] {
        let ran = run_program(&case, &[command]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(
            ran.err,
            "error: no session in ~/p\n\
             hint: start one with `turnstone exec -- COMMAND`, or choose one with `--session ID`\n"
        );
    }
    let ran = run_program(&case, &["status"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("undo      available; nothing captured yet"), "{}", ran.out);
}

/// Proves R19.
#[test]
fn abandoned_turns_stay_in_the_log() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > one");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    let more = ["exec", "--session", &session, "--", "sh", "-c", "echo y > two"];
    assert_eq!(run_program(&case, &more).code, 0);

    let ran = run_program(&case, &["log"]);
    assert!(!ran.out.contains("echo x > one") || ran.out.matches("completed").count() == 1);
    let ran = run_program(&case, &["log", "--all"]);
    assert!(
        ran.out.contains("(abandoned by a later prompt)\n  sh -c 'echo x > one'"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  branch"), "{}", ran.out);
    assert!(!case.path("p/one").exists() && case.path("p/two").exists());
}

#[test]
fn undo_without_effect_exits_with_4_and_keeps_head() {
    let case = CliFixture::empty();
    write_file(&case, "f", TEN_LINES);
    exec_shell(&case, "sed -i s/2/two/ f");
    write_file(&case, "f", &TEN_LINES.replace("2\n", "zwei\n"));

    let ran = run_program(&case, &["undo", "--dry-run"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("the conversation would not change\n"), "{}", ran.err);
    for _ in 0..2 {
        let ran = run_program(&case, &["undo"]);
        assert_eq!(ran.code, 4, "the turn is still there to be undone: {ran:?}");
        assert!(
            ran.err.contains("no files could be undone: the conversation does not"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("`turnstone undo --conversation`"), "{}", ran.err);
    }
    let ran = run_program(&case, &["redo"]);
    assert_eq!(ran.code, 1, "nothing to redo: {ran:?}");
    let ran = run_program(&case, &["undo", "--json"]);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &result["without_effect"]), (4, &true.into()));

    assert_eq!(run_program(&case, &["undo", "--conversation"]).code, 0);
    assert_eq!(run_program(&case, &["undo"]).code, 1, "now it is gone");
}

/// Proves R37.
#[test]
fn undo_by_a_tool_needs_a_persons_approval() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > f");
    let by_a_tool = |args: &[&str]| {
        let mut command = case.command("p", args);
        case.run_command(command.env("PATH", TEST_PATH).env("TURNSTONE_SESSION", "ses_of_a_tool"))
    };

    let ran = by_a_tool(&["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("this needs the permission \"revert\""), "{}", ran.err);
    assert_eq!(read_file_in_project(&case, "f"), "x\n");
    let waiting = run_program(&case, &["permission", "pending", "--json"]);
    let waiting: Value = serde_json::from_str(&waiting.out).expect("JSON");
    let id = waiting[0]["id"].as_str().expect("an id").to_owned();
    let ran = by_a_tool(&["permission", "reply", &id, "always"]);
    assert_eq!(ran.code, 1, "not by itself: {ran:?}");
    let shown = run_program(&case, &["permission", "pending"]);
    assert!(shown.out.contains(&id) && shown.out.contains("revert"), "{shown:?}");

    assert_eq!(run_program(&case, &["permission", "reply", &id[..id.len() - 1], "always"]).code, 0);
    assert_eq!(by_a_tool(&["undo"]).code, 0);
    assert!(!case.path("p/f").exists());
    assert_eq!(run_program(&case, &["permission", "reply", &id, "once"]).code, 1, "it is answered");
}

/// Proves R37, R38.
#[test]
fn project_rule_denies_undo_even_to_a_person() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > f; echo y > g");
    assert_eq!(run_program(&case, &["permission", "set", "revert", "f", "deny"]).code, 0);
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("revert \"f\" is not allowed: denied by a rule"), "{}", ran.err);
    assert!(ran.err.contains("`turnstone permission explain revert \"f\"`"), "{}", ran.err);
    assert_eq!(
        (read_file_in_project(&case, "f").as_str(), read_file_in_project(&case, "g").as_str()),
        ("x\n", "y\n")
    );
    let result = run_program(&case, &["permission", "explain", "revert", "f"]);
    assert!(result.out.starts_with("you     deny, by rule 1 of stored project"), "{result:?}");
    let result = run_program(&case, &["permission", "explain", "revert", "g", "--json"]);
    let result: Value = serde_json::from_str(&result.out).expect("JSON");
    assert_eq!((&result["action"], &result["tool"]["action"]), (&"allow".into(), &"ask".into()));

    assert_eq!(run_program(&case, &["undo", "--path", "g"]).code, 0);
    assert_eq!(run_program(&case, &["permission", "unset", "revert", "f"]).code, 0);
    assert_eq!(run_program(&case, &["permission", "unset", "revert", "f"]).code, 1);
}

#[test]
fn non_regular_config_file_stops_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > new; mkfifo pipe");
    for target in ["pipe", "/dev/zero"] {
        for name in ["opencode.json", "opencode.jsonc", "turnstone.json"] {
            let file = case.path("p").join(name);
            std::os::unix::fs::symlink(target, &file).expect("linked");

            let ran = run_program(&case, &["undo"]);

            assert_ne!(ran.code, 0, "{name} -> {target}: {ran:?}");
            let result = format!("{name} is not a regular file");
            assert!(ran.err.contains(&result), "{name} -> {target}: {ran:?}");
            assert_eq!(
                read_file_in_project(&case, "new"),
                "x\n",
                "no rule was read, so no file changes"
            );
            fs_err::remove_file(&file).expect("removed");
        }
    }
    assert_eq!(run_program(&case, &["undo"]).code, 0);
}
