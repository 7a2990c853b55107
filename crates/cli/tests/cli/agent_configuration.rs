//! `models`, `auth`, `config` and `trust`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fixture::{CliFixture, ProgramOutput, read_file};

/// A key that must appear nowhere.
const KEY: &str = "k-pLaNt3d-0123456789";

fn put(case: &CliFixture, path: &str, text: &str) {
    let path = case.path(path);
    fs_err::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs_err::write(path, text).expect("written");
}

fn run_with_input(case: &CliFixture, args: &[&str], input: &str) -> ProgramOutput {
    case.run_command(case.command("p", args).write_stdin(input))
}

/// What an agent gets that runs the program in its session.
fn run_as_agent(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    case.run_command(case.command("p", args).env("TURNSTONE_SESSION", "ses_agent").write_stdin(KEY))
}

#[test]
fn config_check_names_file_line_and_key_and_quotes_nothing() {
    let case = CliFixture::empty();
    put(
        &case,
        "p/opencode.json",
        "{\n \"agent\": {\n  \"docs\": { \"mode\": \"k-pLaNt3d\" }\n }\n}",
    );
    let ran = case.run(&["config", "check"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("opencode.json") && ran.err.contains("line 3"), "{}", ran.err);
    assert!(ran.err.contains("agent.docs.mode") && ran.err.contains("primary"), "{}", ran.err);
    assert!(!ran.err.contains("pLaNt3d"), "{}", ran.err);
    assert_eq!(case.run(&["models"]).code, 1);
}

#[test]
fn trust_puts_settings_in_force_until_the_file_changes() {
    let case = CliFixture::empty();
    put(&case, "p/opencode.json", "{\n \"shell\": \"/bin/zsh\",\n \"lsp\": { \"x\": {} }\n}");
    let check = case.run(&["config", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
    assert!(check.out.contains("opencode.json:2: shell (starts programs)"), "{}", check.out);
    assert!(check.out.contains("not supported: lsp"), "{}", check.out);
    assert!(check.err.contains("turnstone trust"), "{}", check.err);
    assert_eq!(case.run_json(&["config", "show"]), json!({}));
    assert_eq!(case.run(&["trust"]).code, 1, "it asks, and nobody answers");
    assert_eq!(run_as_agent(&case, &["trust", "--yes"]).code, 1);
    assert_eq!(case.run_json(&["config", "show"]), json!({}));
    let trusted = case.run(&["trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    assert_eq!(case.run_json(&["config", "show"])["shell"], "/bin/zsh");
    let record = case.data_dir().join("trust.json");
    assert_eq!(fs_err::metadata(&record).expect("there").permissions().mode() & 0o777, 0o600);
    put(&case, "p/opencode.json", "{\n \"shell\": \"/bin/evil\" }");
    assert_eq!(case.run_json(&["config", "show"]), json!({}));
    assert_eq!(case.run_json(&["trust", "--list"])[0]["current"], false);
    assert_eq!(case.run(&["trust", "--remove"]).code, 0);
    assert_eq!(case.run_json(&["trust", "--list"]), json!([]));
}

/// What a project allows is in force for the engine, too, only after `turnstone trust`.
#[test]
fn permissions_of_a_project_are_loosened_by_trust_only() {
    let case = CliFixture::empty();
    put(&case, "home/.config/opencode/opencode.json", r#"{"permission": {"bash": "ask"}}"#);
    put(
        &case,
        "p/turnstone.json",
        r#"{"permission": {"bash": {"ls *": "allow", "rm *": "deny"}}}"#,
    );
    let explain = |command: &str| {
        let args = ["permission", "explain", "bash", command, "--agent", "build"];
        case.run_json(&args)["action"].clone()
    };
    assert_eq!((explain("ls x"), explain("rm x")), (json!("ask"), json!("deny")));
    assert_eq!(case.run(&["trust", "--yes"]).code, 0);
    assert_eq!((explain("ls x"), explain("rm x")), (json!("allow"), json!("deny")));
    put(&case, "p/turnstone.json", r#"{"permission": {"bash": {"ls *": "allow"}}}"#);
    assert_eq!(explain("ls x"), "ask");
}

#[test]
fn key_is_stored_from_standard_input_and_never_printed() {
    let case = CliFixture::empty();
    assert_eq!(run_as_agent(&case, &["auth", "set", "anthropic"]).code, 1);
    let set = run_with_input(&case, &["auth", "set", "anthropic"], &format!("{KEY}\n"));
    assert_eq!(set.code, 0, "{set:?}");
    let file = case.data_dir().join("auth.json");
    assert_eq!(fs_err::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(read_file(&file).contains(KEY));
    let listed = case.run_json(&["auth", "list"]);
    assert_eq!((&listed[0]["provider"], &listed[0]["usable"]), (&json!("anthropic"), &json!(true)));
    let mut printed = format!("{set:?}");
    for args in [&["auth", "list"][..], &["config", "show"], &["models"], &["models", "--json"]] {
        let ran = case.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
        printed.push_str(&format!("{ran:?}"));
    }
    assert!(!printed.contains(KEY) && printed.contains("anthropic/claude-sonnet-5"), "{printed}");
    for input in ["", "  \n", "two words"] {
        assert_eq!(
            run_with_input(&case, &["auth", "set", "anthropic"], input).code,
            1,
            "{input:?}"
        );
    }
    assert!(read_file(&file).contains(KEY), "a refused key replaces nothing");
    assert_eq!(run_as_agent(&case, &["auth", "remove", "anthropic"]).code, 1);
    assert_eq!(case.run(&["auth", "remove", "anthropic"]).code, 0);
    assert_eq!(case.run(&["auth", "remove", "anthropic"]).code, 1);
    assert_eq!(case.run_json(&["auth", "list"]), json!([]));
}

#[test]
fn config_show_hides_secrets_and_keeps_references() {
    let case = CliFixture::empty();
    let text = format!(
        r#"{{"model": "corp/m", "provider": {{"corp": {{"api": "https://corp/v1", "options": {{"apiKey": "{KEY}",
            "headers": {{"X-Any": "{KEY}"}}, "odd": "{{env:SECRET}}"}}, "models": {{"m": {{}}}}}}}}}}"#
    );
    put(&case, "home/.config/opencode/opencode.json", &text);
    let mut command = case.command("p", &["config", "show"]);
    let ran = case.run_command(command.env("SECRET", KEY));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains(KEY) && ran.out.contains("{env:SECRET}"), "{}", ran.out);
    assert!(ran.out.contains("\"model\": \"corp/m\""), "{}", ran.out);
}

#[test]
fn models_show_an_unknown_price_as_unknown() {
    let case = CliFixture::empty();
    let text = r#"{"provider": {"local": {"api": "http://127.0.0.1/v1", "models": {"m": {"limit": {"context": 8192}}}}}}"#;
    put(&case, "home/.config/opencode/opencode.json", text);
    let listed = case.run_json(&["models"]);
    assert_eq!(listed["default"], "local/m");
    let model = &listed["models"][0];
    assert_eq!((&model["context"], &model["wire"]), (&json!(8192), &json!("chat")));
    assert_eq!(model["cost"]["input"], json!(null));
    let ran = case.run(&["models"]);
    assert!(ran.out.contains("8k") && ran.out.contains('?') && !ran.out.contains("$0"), "{ran:?}");
    let all = case.run_json(&["models", "anthropic", "--all"]);
    assert!(all["models"].as_array().expect("models").len() > 5);
    assert_eq!(all["models"][0]["available"], false);
    let unknown = case.run(&["models", "nope"]);
    assert!(unknown.code == 1 && unknown.err.contains("anthropic"), "{unknown:?}");
}
