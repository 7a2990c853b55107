//! `turnstone run`: what is printed, and what is left behind.

use serde_json::{Value, json};
use turnstone_testkit::pseudo_terminal::TerminalProgram;

use crate::fixture::{CliFixture, ProgramOutput, read_file};

/// Writes a script and returns the name of the model that plays it.
pub(crate) fn scripted(case: &CliFixture, script: &Value) -> String {
    let path = case.path("script.json");
    fs_err::write(&path, script.to_string()).expect("written");
    format!("scripted/{}", path.display())
}

/// Runs a prompt with a script.
pub(crate) fn run_script(case: &CliFixture, script: &Value, args: &[&str]) -> ProgramOutput {
    let model = scripted(case, script);
    case.run(&[&["run", "--model", &model], args].concat())
}

/// Everything that is stored of the newest session.
pub(crate) fn export_newest(case: &CliFixture) -> String {
    let listed = case.run_json(&["session", "list"]);
    let id = listed["sessions"][0]["id"].as_str().expect("a session").to_owned();
    let exported = case.run(&["export", &id]);
    assert_eq!(exported.code, 0, "{exported:?}");
    exported.out
}

fn title() -> Value {
    json!([{"text": "A title"}])
}

#[test]
fn answer_is_printed_and_its_changes_can_be_undone() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/tide.md"), "low 04:10\n\nhigh 10:25\n").expect("written");
    let script = json!({"turns": [
        [
            {"text": "I correct it.", "delta_chars": 3},
            {"tool": "edit", "input": {"filePath": "tide.md", "oldString": "04:10", "newString": "05:10"}},
            {"tool": "bash", "input": {"command": "echo new > made.txt; echo visible"}},
            {"tool": "read", "input": {"filePath": "missing.md"}}
        ],
        [{"text": "Done."}, {"usage": {"input": 1200, "output": 40}}]
    ], "without_tools": title()});
    let ran = run_script(&case, &script, &["correct", "the table"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "I correct it.\nDone.\n");
    for line in [
        "> build · scripted/~/script.json",
        "✓ edit  tide.md (+1 −1)",
        "✓ bash  echo new > made.txt; echo visible",
        "✗ read  missing.md (failed)",
        "2 files changed: made.txt, tide.md; `turnstone undo` undoes this",
        "tokens in",
    ] {
        assert!(ran.err.contains(line), "{line} in {}", ran.err);
    }
    let edited = read_file(&case.path("p/tide.md")).replace("high", "High");
    fs_err::write(case.path("p/tide.md"), edited).expect("a person edits");
    let undone = case.run(&["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(read_file(&case.path("p/tide.md")), "low 04:10\n\nHigh 10:25\n");
    assert!(!case.path("p/made.txt").exists());
}

#[test]
fn title_is_written_by_the_model_unless_it_is_given() {
    let case = CliFixture::empty();
    let script = json!({"turns": [[{"text": "Yes."}]], "without_tools": title()});
    assert_eq!(run_script(&case, &script, &["one"]).code, 0);
    assert_eq!(run_script(&case, &script, &["two", "--title", "Mine"]).code, 0);
    let listed = case.run_json(&["session", "list"]);
    let titles: Vec<&str> = listed["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["title"].as_str())
        .collect();
    assert_eq!(titles, ["Mine", "A title"]);
}

#[test]
fn json_lines_are_those_of_opencode() {
    let case = CliFixture::empty();
    let script = json!({"turns": [
        [{"reasoning": "hm"}, {"text": "First."}, {"tool": "bash", "input": {"command": "echo hey"}}],
        [{"text": "Last."}, {"usage": {"input": 10, "output": 2, "cost": 0.5}}]
    ], "without_tools": title()});
    let ran = run_script(&case, &script, &["go", "--format", "json", "--thinking"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    let wanted = [
        "step_start",
        "reasoning",
        "text",
        "tool_use",
        "step_finish",
        "step_start",
        "text",
        "step_finish",
    ];
    assert_eq!(kinds, wanted, "{}", ran.out);
    assert_eq!(lines[2]["part"]["text"], "First.");
    assert_eq!(lines[3]["part"]["state"]["output"], "hey\n");
    assert_eq!(lines[7]["part"]["cost"], 0.5);
    for line in &lines {
        assert_eq!(line["sessionID"], line["part"]["sessionID"]);
        assert!(line["timestamp"].is_i64());
    }
}

#[test]
fn failed_run_says_why_and_exits_with_one() {
    let case = CliFixture::empty();
    let script = json!({"turns": [[
        {"text": "I beg"},
        {"error": {"message": "no such model", "kind": "rejected", "status": 404}}
    ]], "without_tools": title()});
    let ran = run_script(&case, &script, &["go"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("error: the run failed: no such model"), "{}", ran.err);
    assert!(ran.err.contains("`turnstone run --continue PROMPT`"), "{}", ran.err);
    let ran = run_script(&case, &script, &["go", "--format", "json"]);
    let last: Value = serde_json::from_str(ran.out.lines().last().expect("a line")).expect("JSON");
    assert_eq!((last["type"].as_str(), ran.code), (Some("error"), 1), "{ran:?}");
    assert_eq!(last["error"]["data"]["message"], "no such model");
}

#[test]
fn retry_is_shown_and_text_of_the_failed_attempt_does_not_count() {
    let case = CliFixture::empty();
    let script = json!({"turns": [[
        {"text": "Half of"},
        {"error": {"message": "overloaded", "status": 529, "retry_after": 30}},
        {"text": "All of it."}
    ]], "without_tools": title()});
    let ran = run_script(&case, &script, &["go"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("retry 1 in 30 ms: overloaded"), "{}", ran.err);
    assert!(ran.err.contains("(this answer broke off; the model begins again)"), "{}", ran.err);
    assert!(ran.out.ends_with("All of it.\n"), "{}", ran.out);
}

#[test]
fn limit_of_the_cost_ends_the_run_before_the_next_request() {
    let case = CliFixture::empty();
    let step = |cost: f64| {
        json!([{"tool": "bash", "input": {"command": "echo step >> steps.txt"}},
               {"usage": {"input": 10, "output": 2, "cost": cost}}])
    };
    let script = json!({"turns": [step(0.3), step(0.3), step(0.3), [{"text": "Done."}]],
        "without_tools": [{"text": "T"}, {"usage": {"input": 1, "output": 1, "cost": 0.0}}]});
    let ran = run_script(&case, &script, &["go", "--max-cost", "0.50"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the limit of $0.5 is reached: $0.6000 are spent"), "{}", ran.err);
    assert_eq!(read_file(&case.path("p/steps.txt")), "step\nstep\n");
    assert!(ran.err.contains("$0.60"), "{}", ran.err);
}

#[test]
fn control_characters_of_a_model_do_not_reach_the_terminal() {
    let case = CliFixture::empty();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2Jred";
    let script = json!({"turns": [
        [{"text": evil}, {"tool": "bash", "input": {"command": format!("echo {evil}")}}],
        [{"text": "end"}]
    ], "without_tools": title()});
    let model = scripted(&case, &script);
    let mut command = terminal_command(&case, &["run", "--model", &model, "go"]);
    let program = TerminalProgram::start(&mut command).expect("started");
    let (screen, status) = program.finish().expect("ended");
    assert!(status.success(), "{screen}");
    assert!(screen.contains("␛]0;owned␇␛[2Jred"), "{screen}");
    assert!(!screen.contains("\u{1b}]0;owned") && !screen.contains("\u{1b}[2J"), "{screen}");
}

/// The program as at a terminal, in `p`.
#[expect(clippy::disallowed_methods, reason = "a test starts the program at a terminal of its own")]
pub(crate) fn terminal_command(case: &CliFixture, args: &[&str]) -> std::process::Command {
    let program = assert_cmd::cargo::cargo_bin("turnstone");
    let mut command = std::process::Command::new(program);
    command.env_clear().env("TZ", "UTC").env("USER", "ada").env("TERM", "xterm");
    command.env("HOME", case.path("home")).env("TURNSTONE_DATA", case.data_dir());
    command.current_dir(case.path("p")).args(args);
    command
}
