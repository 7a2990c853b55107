//! `turnstone undo`, `redo`, `log` and `status`: exactly the turn, in words that help.

use serde_json::Value;

use crate::case::{Case, read};
use crate::exec::{PATH, await_file, log, run, run_in, shell, start};

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn write(case: &Case, name: &str, text: &str) {
    fs_err::write(case.place("p").join(name), text).expect("written");
}

fn has(case: &Case, name: &str) -> String {
    read(&case.place("p").join(name))
}

#[test]
fn undo_takes_back_the_turn_keeps_what_came_later_and_redo_returns_it() {
    let case = Case::empty();
    write(&case, "f", TEN);
    shell(&case, "sed -i s/2/two/ f; echo x > new; mkdir sub; echo y > sub/z");
    write(&case, "f", &has(&case, "f").replace("9\n", "nine\n"));

    let ran = run(&case, &["undo", "--dry-run"]);
    assert_eq!(
        ran.out,
        "remove     new  (window)\nremove     sub/z  (window)\nmerge      f  (window)\n"
    );
    assert!(ran.err.contains("2 to remove, 1 to merge; nothing was changed\n"), "{}", ran.err);
    assert_eq!(has(&case, "new"), "x\n");

    let ran = run(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.starts_with("taking back: sh -c 'sed -i s/2/two/ f;"), "{}", ran.err);
    assert!(ran.err.ends_with("hint: `turnstone redo` brings it back\n"), "{}", ran.err);
    assert_eq!(has(&case, "f"), TEN.replace("9\n", "nine\n"));
    assert!(!case.place("p/new").exists() && !case.place("p/sub").exists());
    let ran = run(&case, &["undo"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("has nothing left to undo\nhint: "), "{}", ran.err);

    assert_eq!(run(&case, &["redo"]).code, 0);
    assert_eq!(has(&case, "f"), TEN.replace("2\n", "two\n").replace("9\n", "nine\n"));
    assert_eq!((has(&case, "new").as_str(), has(&case, "sub/z").as_str()), ("x\n", "y\n"));
    let kinds: Vec<Value> = log(&case)["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|it| it["kind"].clone())
        .collect();
    assert_eq!(kinds, [Value::Null, "undo".into(), "redo".into()]);
}

#[test]
fn a_conflict_is_told_with_its_reason_and_a_way_out() {
    let case = Case::empty();
    write(&case, "f", TEN);
    shell(&case, "sed -i s/2/two/ f; echo x > new");
    write(&case, "f", &TEN.replace("2\n", "zwei\n"));

    let ran = run(&case, &["undo"]);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(
        ran.out,
        "removed    new  (window)\nconflict   f  (the same lines were changed since)\n"
    );
    assert_eq!(has(&case, "f"), TEN.replace("2\n", "zwei\n"), "left alone");
    let (_, command) = ran.err.split_once("`turnstone snapshot restore ").expect("a way out");
    let (words, _) = command.split_once('`').expect("quoted");
    let mut args = vec!["snapshot", "restore"];
    args.extend(words.split(' '));
    assert_eq!(run(&case, &args).code, 0, "{args:?}");
    assert_eq!(has(&case, "f"), TEN);
}

#[test]
fn a_contended_path_is_left_alone_and_the_named_command_undoes_both_r3() {
    let case = Case::empty();
    write(&case, "plan", "plan\n");
    let slow = "echo one >> plan; touch ../wrote; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut one = start(&case, &["exec", "--title", "one", "--", "sh", "-c", slow]);
    await_file(&case.place("wrote"));
    let ran = shell(&case, "echo two >> plan; echo x > mine");
    assert!(ran.err.starts_with("turnstone: another command runs here (one, ses_"), "{}", ran.err);
    let busy = run(&case, &["status", "--json"]);
    let busy: Value = serde_json::from_str(&busy.out).expect("JSON");
    assert_eq!(busy["at_work"].as_array().map(Vec::len), Some(1), "{busy}");
    fs_err::write(case.place("enough"), "").expect("written");
    assert!(one.wait().expect("ends").success());

    let listed = run(&case, &["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    let two = listed.as_array().expect("a list").iter().find(|it| it["title"] != "one");
    let two = two.expect("the second session")["id"].as_str().expect("an id").to_owned();
    let ran = run(&case, &["undo", "--session", &two]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("contended  plan  (perhaps changed by trn_"), "{}", ran.out);
    assert_eq!(has(&case, "plan"), "plan\none\ntwo\n");

    let (_, command) = ran.err.split_once("together: `turnstone ").expect("a command");
    let words: Vec<&str> = command.split('`').next().expect("quoted").split(' ').collect();
    let ran = run(&case, &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(has(&case, "plan"), "plan\n");
    assert_eq!(run(&case, &["redo", "--session", &two]).code, 0);
    assert_eq!(has(&case, "plan"), "plan\none\ntwo\n");
}

#[test]
fn while_a_turn_runs_nothing_is_undone_r45() {
    let case = Case::empty();
    shell(&case, "echo x > new");
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    let slow = "touch ../ready; while [ ! -e ../enough ]; do sleep 0.05; done";
    let mut child = start(&case, &["exec", "--session", &session, "--", "sh", "-c", slow]);
    await_file(&case.place("ready"));
    let ran = run(&case, &["undo"]);
    let second = run(&case, &["exec", "--session", &session, "--", "true"]);
    let status = run(&case, &["status"]);
    fs_err::write(case.place("enough"), "").expect("written");
    assert!(child.wait().expect("ends").success());
    assert_eq!((ran.code, has(&case, "new").as_str()), (4, "x\n"), "{ran:?}");
    assert_eq!(second.code, 125, "{second:?}");
    assert!(status.out.contains("turn      running trn_"), "{}", status.out);
}

#[test]
fn single_paths_one_half_and_named_only_are_honoured() {
    let case = Case::empty();
    shell(&case, "echo a > a; echo b > src/b");
    let ran = run(&case, &["undo", "--named-only", "--dry-run"]);
    assert_eq!(ran.out.matches("not named by a tool").count(), 2, "{}", ran.out);
    let ran = run_in(&case, "p/src", &["undo", "--path", "b", "--files"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "removed    src/b  (window)\n"), "{ran:?}");
    assert_eq!(has(&case, "a"), "a\n");
    let ran = run(&case, &["undo", "--path", "../q"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let turn = log(&case)["entries"][0]["id"].as_str().expect("an id").to_owned();
    let ran = run(&case, &["undo", &turn, "--conversation"]);
    assert_eq!((ran.code, has(&case, "a").as_str()), (0, "a\n"), "{ran:?}");
    assert!(run(&case, &["status"]).out.contains("head      before msg_"));
    assert_eq!(run(&case, &["undo", "trn_zzz"]).code, 1);
}

#[test]
fn a_commit_since_is_said_first_and_never_undone_r5() {
    let case = Case::empty();
    write(&case, "f", "old\n");
    shell(
        &case,
        "git init -q -b main . && git add f && git -c user.name=a -c user.email=a@b commit -qm one",
    );
    shell(
        &case,
        "echo new > f; git -c user.name=a -c user.email=a@b commit -qam two; git switch -qc next",
    );
    let ran = run(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let at = ran.err.find("git has moved: main ").expect("said");
    assert!(ran.err[at..].contains("→ next ") && ran.err.contains("commits never"), "{}", ran.err);
    assert_eq!(has(&case, "f"), "old\n");
    let count = shell(&case, "git rev-list --count HEAD");
    assert_eq!(count.out, "2\n");
}

#[test]
fn the_report_as_json_is_the_operation_and_what_was_only_seen_is_marked_r2() {
    let case = Case::empty();
    shell(&case, "echo x > new");
    let ran = run(&case, &["undo", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["kind"], "undo");
    assert_eq!(report["dry_run"], false);
    assert_eq!(report["roots"][0]["report"]["removed"], serde_json::json!(["new"]));
    assert_eq!(report["roots"][0]["windows"], serde_json::json!(["new"]));
    let entry = &log(&case)["entries"][1];
    assert_eq!(entry["report"]["operation"], report["operation"]);
}

#[test]
fn without_a_session_the_way_to_begin_is_shown() {
    let case = Case::empty();
    for command in ["undo", "redo", "log"] {
        let ran = run(&case, &[command]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!(
            ran.err,
            "error: there is no session in ~/p\nhint: `turnstone exec -- COMMAND` runs a command that can be undone\n"
        );
    }
    let ran = run(&case, &["status"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("undo      works; nothing is captured yet"), "{}", ran.out);
}

#[test]
fn what_a_later_command_left_behind_stays_in_the_log_r19() {
    let case = Case::empty();
    shell(&case, "echo x > one");
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    assert_eq!(run(&case, &["undo"]).code, 0);
    let more = ["exec", "--session", &session, "--", "sh", "-c", "echo y > two"];
    assert_eq!(run(&case, &more).code, 0);

    let ran = run(&case, &["log"]);
    assert!(!ran.out.contains("echo x > one") || ran.out.matches("completed").count() == 1);
    let ran = run(&case, &["log", "--all"]);
    assert!(
        ran.out.contains("(left behind by a later prompt)\n  sh -c 'echo x > one'"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  branch"), "{}", ran.out);
    assert!(!case.place("p/one").exists() && case.place("p/two").exists());
}

#[test]
fn an_undo_that_can_take_back_nothing_ends_with_4_and_leaves_the_conversation() {
    let case = Case::empty();
    write(&case, "f", TEN);
    shell(&case, "sed -i s/2/two/ f");
    write(&case, "f", &TEN.replace("2\n", "zwei\n"));

    let ran = run(&case, &["undo", "--dry-run"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("the conversation would stay where it is\n"), "{}", ran.err);
    for _ in 0..2 {
        let ran = run(&case, &["undo"]);
        assert_eq!(ran.code, 4, "the turn is still there to be undone: {ran:?}");
        assert!(ran.err.contains("no file could follow: the conversation stays"), "{}", ran.err);
        assert!(ran.err.contains("`turnstone undo --conversation`"), "{}", ran.err);
    }
    let ran = run(&case, &["redo"]);
    assert_eq!(ran.code, 1, "nothing was taken: {ran:?}");
    let ran = run(&case, &["undo", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &told["without_effect"]), (4, &true.into()));

    assert_eq!(run(&case, &["undo", "--conversation"]).code, 0);
    assert_eq!(run(&case, &["undo"]).code, 1, "now it is gone");
}

#[test]
fn a_tool_that_wants_to_undo_is_asked_about_and_a_person_answers_r37() {
    let case = Case::empty();
    shell(&case, "echo x > f");
    let by_a_tool = |args: &[&str]| {
        let mut command = case.command("p", args);
        case.ran(command.env("PATH", PATH).env("TURNSTONE_SESSION", "ses_of_a_tool"))
    };

    let ran = by_a_tool(&["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("revert has to be allowed first"), "{}", ran.err);
    assert_eq!(has(&case, "f"), "x\n");
    let waiting = run(&case, &["permission", "pending", "--json"]);
    let waiting: Value = serde_json::from_str(&waiting.out).expect("JSON");
    let id = waiting[0]["id"].as_str().expect("an id").to_owned();
    let ran = by_a_tool(&["permission", "reply", &id, "always"]);
    assert_eq!(ran.code, 1, "not by itself: {ran:?}");
    let shown = run(&case, &["permission", "pending"]);
    assert!(shown.out.contains(&id) && shown.out.contains("revert"), "{shown:?}");

    assert_eq!(run(&case, &["permission", "reply", &id[..id.len() - 1], "always"]).code, 0);
    assert_eq!(by_a_tool(&["undo"]).code, 0);
    assert!(!case.place("p/f").exists());
    assert_eq!(run(&case, &["permission", "reply", &id, "once"]).code, 1, "it is answered");
}

#[test]
fn a_rule_of_the_project_keeps_even_a_person_from_undoing_r37_r38() {
    let case = Case::empty();
    shell(&case, "echo x > f; echo y > g");
    assert_eq!(run(&case, &["permission", "set", "revert", "f", "deny"]).code, 0);
    let ran = run(&case, &["undo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("revert \"f\" is not allowed: denied by a rule"), "{}", ran.err);
    assert!(ran.err.contains("`turnstone permission explain revert \"f\"`"), "{}", ran.err);
    assert_eq!((has(&case, "f").as_str(), has(&case, "g").as_str()), ("x\n", "y\n"));
    let told = run(&case, &["permission", "explain", "revert", "f"]);
    assert!(told.out.starts_with("deny: revert \"f\", rule 1 of: stored project"), "{told:?}");
    let told = run(&case, &["permission", "explain", "revert", "g", "--json"]);
    let told: Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!((&told["action"], &told["tool"]["action"]), (&"allow".into(), &"ask".into()));

    assert_eq!(run(&case, &["undo", "--path", "g"]).code, 0);
    assert_eq!(run(&case, &["permission", "unset", "revert", "f"]).code, 0);
    assert_eq!(run(&case, &["permission", "unset", "revert", "f"]).code, 1);
}

#[test]
fn a_pipe_or_device_as_configuration_stops_undo_with_its_path() {
    let case = Case::empty();
    shell(&case, "echo x > new; mkfifo pipe");
    for target in ["pipe", "/dev/zero"] {
        for name in ["opencode.json", "opencode.jsonc", "turnstone.json"] {
            let file = case.place("p").join(name);
            std::os::unix::fs::symlink(target, &file).expect("linked");

            let ran = run(&case, &["undo"]);

            assert_ne!(ran.code, 0, "{name} -> {target}: {ran:?}");
            let told = format!("{name} is not a regular file");
            assert!(ran.err.contains(&told), "{name} -> {target}: {ran:?}");
            assert_eq!(has(&case, "new"), "x\n", "no rule was read, so no file changes");
            fs_err::remove_file(&file).expect("removed");
        }
    }
    assert_eq!(run(&case, &["undo"]).code, 0);
}
