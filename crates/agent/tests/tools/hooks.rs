//! Hooks and formatters: what they write belongs to the call.

use std::sync::Arc;

use serde_json::json;
use turnstone_agent::tool::{
    CommandFormatter, EditTool, FormatterCommand, HookCommand, HookMoment, Tool, ToolSettings,
    run_hook,
};

use crate::bash::command_settings;
use crate::fake_host::ToolFixture;

fn shell(line: &str) -> HookCommand {
    let words = ["sh", "-c", line].map(str::to_owned).to_vec();
    HookCommand {
        words,
        environment: vec![("EXTRA".to_owned(), "given".to_owned())],
        timeout: None,
    }
}

#[test]
fn hook_knows_its_call_and_what_it_writes_is_undone_with_it() {
    let case = ToolFixture::new();
    let host = case.host("edit");
    let line = "echo \"$TURNSTONE_HOOK $TURNSTONE_TOOL $TURNSTONE_TOOL_INPUT $EXTRA\" > log";
    let call = (HookMoment::After, "edit", &json!({"filePath": "a"}));
    run_hook(&host, &command_settings(), &shell(line), call).expect("ran");
    assert_eq!(case.text("log").as_deref(), Some("after edit {\"filePath\":\"a\"} given\n"));
    let sets = case.change_sets();
    assert!(sets.len() == 1 && sets[0].set.part.is_some(), "{sets:?}");
    assert!(case.undo().is_complete());
    assert_eq!(case.text("log"), None);
}

#[test]
fn failing_hook_says_why() {
    let case = ToolFixture::new();
    let host = case.host("bash");
    let call = (HookMoment::Before, "bash", &json!({}));
    let failed = run_hook(&host, &command_settings(), &shell("echo not today; exit 3"), call);
    let words = failed.expect_err("exit code 3").to_string();
    assert_eq!(words, "The hook before bash failed: it exited with code 3\nnot today");
    let missing =
        HookCommand { words: vec!["no-such-program".to_owned()], ..HookCommand::default() };
    assert!(run_hook(&host, &command_settings(), &missing, call).is_err());
    assert!(run_hook(&host, &command_settings(), &HookCommand::default(), call).is_err());
}

#[test]
fn formatter_runs_for_its_extensions_and_keeps_the_byte_order_mark() {
    let case = ToolFixture::new();
    case.put("a.txt", "\u{feff}one\n");
    case.put("a.md", "one\n");
    let formatter = |line: &str| {
        let words = ["sh", "-c", line, "sh", "$FILE"].map(str::to_owned).to_vec();
        let command = HookCommand { words, ..HookCommand::default() };
        FormatterCommand { command, extensions: vec![".txt".to_owned()] }
    };
    let formatters = vec![
        formatter("printf 'formatted\\n' > \"$1\""),
        formatter("exit 1"),
        formatter("printf 'twice\\n' >> \"$1\""),
    ];
    let formatter = CommandFormatter { commands: command_settings(), formatters };
    let settings = ToolSettings { formatter: Some(Arc::new(formatter)), ..ToolSettings::default() };
    let tool = EditTool::new(&settings);
    for path in ["a.txt", "a.md"] {
        let input = json!({"filePath": path, "oldString": "one", "newString": "two"});
        tool.run(&case.host("edit"), &input).expect("edited");
    }
    assert_eq!(case.text("a.txt").as_deref(), Some("\u{feff}formatted\ntwice\n"));
    assert_eq!(case.text("a.md").as_deref(), Some("two\n"));
    assert!(case.undo().is_complete());
    assert_eq!(case.text("a.txt").as_deref(), Some("\u{feff}one\n"));
}
