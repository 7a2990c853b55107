//! `--json`: keys of native objects are snake_case; OpenCode's objects keep theirs.

use serde_json::Value;

use crate::exec::{exec_shell, read_log, run_program};
use crate::fixture::CliFixture;
use crate::project_worktree::run_git;

/// Where OpenCode's own objects are in the output of a command.
fn is_opencode_object(command: &[&str], path: &str) -> bool {
    match command {
        ["session", "show" | "rename" | "archive" | "unarchive", ..] | ["export", ..] => true,
        ["session", "list", ..] => path.contains(".sessions"),
        ["project", "list", ..] => ["icon", "commands", "time"]
            .iter()
            .any(|theirs| path.contains(&format!(".project.{theirs}"))),
        ["fork", ..] => path.contains(".session"),
        _ => false,
    }
}

fn collect_keys(command: &[&str], value: &Value, path: &str, wrong: &mut Vec<String>) {
    if is_opencode_object(command, path) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                let path = format!("{path}.{key}");
                if !key.chars().all(plain) && !is_opencode_object(command, &path) {
                    wrong.push(format!("{command:?} {path}"));
                }
                collect_keys(command, field, &path, wrong);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| collect_keys(command, item, path, wrong));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn keys_of_native_objects_are_snake_case() {
    let case = CliFixture::empty();
    run_git(&case.path("p"), &["init", "-q"]);
    run_git(&case.path("p"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    exec_shell(&case, "echo a > a; printf '\\000' > b");
    exec_shell(&case, "echo c > c");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let tracked = run_program(&case, &["snapshot", "track", "--json"]);
    let tracked: Value = serde_json::from_str(&tracked.out).expect("JSON");
    let tree = tracked["tree"].as_str().expect("a tree").to_owned();
    let lines = [
        "checkpoint|noon",
        "checkpoint|list",
        "undo|--dry-run",
        "undo",
        "redo",
        "status",
        "diff",
        "jump|before:@1|--dry-run",
        "fork",
        "fork|--worktree=other",
        "log|--all",
        "log|SESSION",
        "worktree|list",
        "worktree|create|one",
        "worktree|reset|one|--dry-run",
        "worktree|remove|one",
        "session|list",
        "session|show|SESSION",
        "session|rename|SESSION|t",
        "session|delete|SESSION|--dry-run",
        "search|echo",
        "stats",
        "todo|list",
        "permission|set|bash|ls|allow",
        "permission|list",
        "permission|explain|bash|ls",
        "permission|unset|bash|ls",
        "project|list",
        "snapshot|list",
        "snapshot|show|TREE",
        "snapshot|diff|TREE",
        "snapshot|restore|TREE",
        "snapshot|undo|--list",
        "snapshot|du",
        "snapshot|gc",
        "snapshot|verify",
        "snapshot|git-dir",
        "forget|c|--dry-run",
        "doctor",
        "db|path",
        "db|size",
        "db|backup",
        "db|compact",
        "export|SESSION",
    ];
    let mut wrong = Vec::new();
    for line in lines {
        let line = line.replace("SESSION", &session).replace("TREE", &tree);
        let command: Vec<&str> = line.split('|').collect();
        let ran = run_program(&case, &[&command[..], &["--json"]].concat());
        let value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{line}: {ran:?}"));
        collect_keys(&command, &value, "", &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
