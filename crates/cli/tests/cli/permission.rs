//! `turnstone permission`: approvals, deciding rules and revocation.

use serde_json::json;
use turnstone_core::permission::{PermissionRule, RuleAction};

use crate::fixture::CliFixture;
use crate::run_output::{export_newest, scripted};

fn approve_git_commands(case: &CliFixture) {
    let project = "tide".parse().expect("an id");
    let rule = PermissionRule::new("bash", "git *", RuleAction::Allow);
    let store = case.open_store();
    store
        .write(&CliFixture::context(), move |tx| tx.projects().approve_rule(&project, &rule))
        .wait()
        .expect("approved");
}

#[test]
fn approvals_are_listed_and_revoked() {
    let case = CliFixture::with_sessions();
    let none = case.run(&["permission", "list"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    approve_git_commands(&case);
    let list = case.run(&["permission", "list"]);
    assert!(list.out.contains("bash") && list.out.contains("git *"), "{}", list.out);
    assert_eq!(case.run_json(&["permission", "list", "--project", "quay"]), serde_json::json!([]));

    let taken = case.run(&["permission", "revoke", "bash", "git *"]);
    assert_eq!(taken.code, 0, "{taken:?}");
    assert_eq!(case.run_json(&["permission", "list"]), serde_json::json!([]));
    let again = case.run(&["permission", "revoke", "bash", "git *"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("has no permanent approval"), "{}", again.err);
}

/// Proves R38.
#[test]
fn explain_names_the_rule_and_its_source() {
    let case = CliFixture::with_sessions();
    let explain = |permission: &str, pattern: &str| {
        case.run_json(&["permission", "explain", permission, pattern])
    };
    let explanation = explain("read", "prod.env");
    assert_eq!(
        (&explanation["action"], &explanation["source"]),
        (&"ask".into(), &"builtin".into())
    );
    assert_eq!(explanation["rule"]["pattern"], "*.env");
    let output = case.run(&["permission", "explain", "read", "prod.env"]);
    assert!(output.out.starts_with("ask, by rule "), "{}", output.out);
    let rule = " of built-in defaults: permission read, pattern \"*.env\"\n";
    assert!(output.out.ends_with(rule), "{}", output.out);
    approve_git_commands(&case);
    let explanation = explain("bash", "git log");
    assert_eq!(
        (&explanation["action"], &explanation["source"]),
        (&"allow".into(), &"approval".into())
    );
    // Where there is no session, the rules are those of one that would begin there.
    let nowhere = case.run_in("nowhere", &["permission", "explain", "plan_exit", "x"]);
    assert!(
        nowhere.out.starts_with("deny, by rule 6 of built-in defaults: permission plan_exit"),
        "{nowhere:?}"
    );
}

/// Proves R38.
#[test]
fn explain_lists_rules_of_every_source() {
    let case = CliFixture::with_sessions();
    let config = r#"{ /* OpenCode's */ "permission": { "bash": { "rm *": "deny" }, }, }"#;
    fs_err::write(case.path("p/opencode.json"), config).expect("written");
    let explanation = case.run_json(&["permission", "explain", "bash", "rm x"]);
    assert_eq!(
        (&explanation["action"], &explanation["source"]),
        (&"deny".into(), &"project".into())
    );
    assert_eq!(case.run(&["permission", "set", "bash", "rm *", "allow"]).code, 0);
    let output = case.run(&["permission", "explain", "bash", "rm x"]);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(
        lines,
        [
            "allow, by rule 1 of stored project rules: permission bash, pattern \"rm *\"",
            "  overrides deny, by rule 1 of project configuration: permission bash, pattern \"rm *\"",
            "  overrides allow, by rule 1 of built-in defaults: permission *, pattern \"*\"",
        ]
    );
    let explanation = case.run_json(&["permission", "explain", "bash", "rm x"]);
    let sources = explanation["layers"].as_array().expect("a list").iter();
    let sources: Vec<_> = sources.map(|it| it["source"].clone()).collect();
    assert_eq!(sources, ["builtin", "project", "stored"]);

    fs_err::write(case.path("p/opencode.json"), "{").expect("written");
    let broken = case.run(&["permission", "explain", "bash", "rm x"]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(
        broken.err.contains("opencode.json: the permission rules cannot be read"),
        "{broken:?}"
    );
}

#[test]
fn explain_and_errors_hide_secrets_of_the_configuration() {
    let case = CliFixture::with_sessions();
    let write = |config: &str| fs_err::write(case.path("p/turnstone.json"), config);
    write(r#"{ "permission": { "bash": { "curl -u ada:hunter2 *": "deny" } } }"#).expect("written");
    let explain = ["permission", "explain", "bash", "curl -u ada:hunter2 x"];
    let explanation = case.run_json(&explain);
    assert_eq!(
        (&explanation["action"], &explanation["source"]),
        (&"deny".into(), &"project".into())
    );
    assert_eq!(explanation["rule"]["pattern"], "curl -u [redacted] *");
    assert!(!explanation.to_string().contains("hunter2"), "{explanation}");
    let output = case.run(&explain);
    let rule = "deny, by rule 1 of project configuration: permission bash, pattern \"curl -u [redacted] *\"";
    assert!(output.out.starts_with(rule), "{}", output.out);
    for config in [
        r#"{ "permission": { "bash": { "curl -u ada:hunter2 *": "never" } } }"#,
        r#"{ "permission": { "bash": "hunter2" } }"#,
    ] {
        write(config).expect("written");
        let broken = case.run(&["-vvv", "permission", "explain", "bash", "x"]);
        assert_eq!(broken.code, 1, "{broken:?}");
        assert!(!broken.err.contains("hunter2"), "{}", broken.err);
    }
}

#[test]
fn request_is_approved_by_a_person_and_by_no_command_of_an_agent() {
    let case = CliFixture::empty();
    let hidden = "env -u TURNSTONE_SESSION \"$MY_PROGRAM\"";
    let line = format!("{hidden} approve 2>&1; {hidden} permission set bash x allow 2>&1");
    let script = json!({"turns": [
        [{"tool": "bash", "input": {"command": line}}],
        [{"text": "Done."}]
    ], "without_tools": [{"text": "T"}]});
    let model = scripted(&case, &script);
    let mut command = case.command("p", &["run", "--model", &model, "--format", "json", "go"]);
    let program = assert_cmd::cargo::cargo_bin("turnstone");
    command.env("MY_PROGRAM", &program).env("PATH", "/usr/bin:/bin");
    let ran = case.run_command(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    let exported = export_newest(&case);
    let refused = "error: only a person can ";
    assert!(exported.matches(refused).count() >= 2, "{exported}");
    let none = case.run(&["approve"]);
    assert!(none.err.contains("no pending request"), "{none:?}");
}
