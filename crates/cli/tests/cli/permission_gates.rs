//! Gates on the command line: a user's denial is final, and a command inside a turn is a tool.

use serde_json::{Value, json};

use crate::fixture::{CliFixture, ProgramOutput};

/// Runs the program for a user with this configuration.
fn run_with_config(case: &CliFixture, place: &str, config: &Value, args: &[&str]) -> ProgramOutput {
    let file = case.path("user.json");
    fs_err::write(&file, config.to_string()).expect("written");
    case.run_command(case.command(place, args).env("TURNSTONE_CONFIG", file))
}

/// Runs the program as a command of a turn does.
fn run_in_turn(case: &CliFixture, place: &str, args: &[&str]) -> ProgramOutput {
    case.run_command(case.command(place, args).env("TURNSTONE_SESSION", "ses_aaa1"))
}

fn write_file(case: &CliFixture, path: &str, text: &str) {
    fs_err::write(case.path(path), text).expect("written");
}

fn read_file(case: &CliFixture, path: &str) -> String {
    fs_err::read_to_string(case.path(path)).expect("read")
}

/// Captures `place` with `one` in a file, then writes `two` into it.
fn capture_then_change(case: &CliFixture, place: &str) -> String {
    write_file(case, &format!("{place}/a.txt"), "one\n");
    let ran = case.run_in(place, &["snapshot", "track", "--json"]);
    let value: Value = serde_json::from_str(&ran.out).expect("JSON");
    write_file(case, &format!("{place}/a.txt"), "two\n");
    value["tree"].as_str().expect("a tree").to_owned()
}

#[test]
fn project_config_cannot_override_user_denial() {
    let case = CliFixture::with_sessions();
    write_file(&case, "p/turnstone.json", r#"{"permission": {"bash": "allow"}}"#);
    assert_eq!(case.run(&["trust", "--yes"]).code, 0);
    assert_eq!(case.run(&["permission", "set", "bash", "*", "allow"]).code, 0);
    let config = json!({"permission": {"bash": {"*": "ask", "rm *": "deny"}}});
    let explanation =
        run_with_config(&case, "p", &config, &["permission", "explain", "bash", "rm x"]);
    let lines: Vec<&str> = explanation.out.lines().collect();
    assert_eq!(
        lines,
        [
            "deny, by rule 2 of user configuration (final): permission bash, pattern \"rm *\"",
            "  overrides allow, by rule 1 of stored project rules: permission bash, pattern \"*\"",
            "  overrides allow, by rule 1 of project configuration: permission bash, pattern \"*\"",
            "  overrides allow, by rule 1 of built-in defaults: permission *, pattern \"*\"",
        ]
    );
    let explanation =
        run_with_config(&case, "p", &config, &["permission", "explain", "bash", "rm x", "--json"]);
    let explanation: Value = serde_json::from_str(&explanation.out).expect("JSON");
    assert_eq!((&explanation["final"], &explanation["source"]), (&json!(true), &json!("user")));
    let explanation =
        run_with_config(&case, "p", &config, &["permission", "explain", "bash", "ls"]);
    assert!(
        explanation.out.starts_with("allow, by rule 1 of stored project rules"),
        "a question may be loosened: {explanation:?}"
    );
}

#[test]
fn user_opencode_config_denial_is_final() {
    let case = CliFixture::with_sessions();
    fs_err::create_dir_all(case.path("home/.config/opencode")).expect("made");
    let denied = r#"{ /* mine */ "permission": {"delete": "deny"} }"#;
    write_file(&case, "home/.config/opencode/opencode.jsonc", denied);
    write_file(&case, "p/turnstone.json", r#"{"permission": {"delete": "allow"}}"#);
    assert_eq!(case.run(&["trust", "--yes"]).code, 0);
    let refused = case.run(&["session", "delete", "--yes", "ses_abc3"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("user configuration"), "{}", refused.err);
    assert!(case.run(&["session", "list"]).out.contains("ses_abc3"));
}

#[test]
fn session_delete_is_gated_and_all_or_nothing() {
    let case = CliFixture::with_sessions();
    let two = ["session", "delete", "--yes", "ses_abc3", "ses_aaa1"];
    // The child of one of them is protected.
    let config = json!({"permission": {"delete": {"ses_aab2": "deny"}}});
    let refused = run_with_config(&case, "p", &config, &two);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("delete \"ses_aab2\" is not allowed"), "{}", refused.err);
    let asked = run_in_turn(&case, "p", &two);
    assert_eq!(asked.code, 4, "{asked:?}");
    let listed = case.run(&["session", "list", "--all"]).out;
    assert!(listed.contains("ses_abc3") && listed.contains("ses_aaa1"), "{listed}");
    let waiting = case.run_json(&["permission", "pending"]);
    assert_eq!(waiting[0]["body"]["permission"], "delete", "{waiting}");
    let done = case.run(&two);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn tools_cannot_reply_or_change_rules() {
    let case = CliFixture::with_sessions();
    run_in_turn(&case, "p", &["session", "delete", "--yes", "ses_abc3"]);
    let waiting = case.run_json(&["permission", "pending"]);
    let id = waiting[0]["id"].as_str().expect("an id").to_owned();
    for args in [
        ["permission", "reply", &id, "always"].as_slice(),
        &["permission", "set", "delete", "*", "allow"],
        &["permission", "unset", "delete", "*"],
    ] {
        let refused = run_in_turn(&case, "p", args);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        assert!(refused.err.contains("only a person can "), "{}", refused.err);
    }
    assert_eq!(case.run(&["permission", "reply", &id, "always"]).code, 0);
    let done = run_in_turn(&case, "p", &["session", "delete", "--yes", "ses_abc3"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn checkpoint_removal_is_gated() {
    let case = CliFixture::with_sessions();
    assert_eq!(case.run(&["checkpoint", "noon"]).code, 0);
    let remove = ["checkpoint", "remove", "noon"];
    let config = json!({"permission": {"checkpoint": "deny"}});
    assert_eq!(run_with_config(&case, "p", &config, &remove).code, 1);
    assert_eq!(run_in_turn(&case, "p", &remove).code, 4);
    assert!(case.run(&["checkpoint", "list"]).out.contains("noon"));
    assert_eq!(case.run(&remove).code, 0);
}

#[test]
fn restore_and_its_undo_are_gated_in_a_project() {
    let case = CliFixture::with_sessions();
    let tree = capture_then_change(&case, "p");
    let restore = ["snapshot", "restore", &tree];
    let config = json!({"permission": {"revert": {"a.txt": "deny"}}});
    let refused = run_with_config(&case, "p", &config, &restore);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("revert \"a.txt\" is not allowed"), "{}", refused.err);
    let asked = run_in_turn(&case, "p", &restore);
    assert_eq!(asked.code, 4, "{asked:?}");
    assert_eq!(read_file(&case, "p/a.txt"), "two\n");
    let planned =
        run_with_config(&case, "p", &config, &["snapshot", "restore", &tree, "--dry-run"]);
    assert_eq!(planned.code, 0, "a plan changes nothing: {planned:?}");
    assert_eq!(case.run(&restore).code, 0);
    assert_eq!(read_file(&case, "p/a.txt"), "one\n");
    assert_eq!(run_with_config(&case, "p", &config, &["snapshot", "undo"]).code, 1);
    assert_eq!(run_in_turn(&case, "p", &["snapshot", "undo"]).code, 4);
    assert_eq!(read_file(&case, "p/a.txt"), "one\n");
    assert_eq!(case.run(&["snapshot", "undo"]).code, 0);
}

#[test]
fn restore_is_gated_without_any_session() {
    for case in [CliFixture::empty(), CliFixture::with_sessions()] {
        let tree = capture_then_change(&case, "nowhere");
        let restore = ["snapshot", "restore", &tree];
        let config = json!({"permission": {"revert": "deny"}});
        let refused = run_with_config(&case, "nowhere", &config, &restore);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("user configuration"), "{}", refused.err);
        let tool = run_in_turn(&case, "nowhere", &restore);
        assert_eq!(tool.code, 1, "{tool:?}");
        assert!(tool.err.contains("no session in which it could be asked"), "{}", tool.err);
        write_file(&case, "nowhere/turnstone.json", r#"{"permission": {"revert": "deny"}}"#);
        let refused = case.run_in("nowhere", &restore);
        assert!(refused.err.contains("project configuration"), "{refused:?}");
        assert_eq!(read_file(&case, "nowhere/a.txt"), "two\n");
        fs_err::remove_file(case.path("nowhere/turnstone.json")).expect("removed");
        let done = case.run_in("nowhere", &restore);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(read_file(&case, "nowhere/a.txt"), "one\n");
    }
}

#[test]
fn forget_is_gated_without_affected_sessions() {
    let case = CliFixture::empty();
    let _tree = capture_then_change(&case, "nowhere");
    let forget = ["forget", "--yes", "a.txt"];
    let config = json!({"permission": {"forget": "deny"}});
    let refused = run_with_config(&case, "nowhere", &config, &forget);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(run_in_turn(&case, "nowhere", &forget).code, 1);
    let planned = case.run_in("nowhere", &["forget", "--dry-run", "a.txt"]);
    assert!(planned.out.contains("a.txt"), "nothing is forgotten: {planned:?}");
    let done = case.run_in("nowhere", &forget);
    assert_eq!(done.code, 0, "{done:?}");
}
