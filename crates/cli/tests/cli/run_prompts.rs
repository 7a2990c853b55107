//! `turnstone run`: what is asked, of the model and of the person, and how a run is ended.

use serde_json::{Value, json};
use turnstone_testkit::pseudo_terminal::TerminalProgram;

use crate::fixture::{CliFixture, read_file};
use crate::run_output::{export_newest, run_script, scripted, terminal_command};

/// A project in which commands are asked.
fn asking() -> CliFixture {
    let case = CliFixture::empty();
    fs_err::create_dir_all(case.path("home/.config/opencode")).expect("made");
    let rules = r#"{"permission":{"bash":"ask","edit":{"*":"allow","locked.txt":"deny"}}}"#;
    fs_err::write(case.path("home/.config/opencode/opencode.json"), rules).expect("written");
    case
}

fn two_commands() -> Value {
    json!({"turns": [
        [{"tool": "bash", "input": {"command": "echo one >> log.txt"}}],
        [{"tool": "bash", "input": {"command": "echo two >> log.txt"}}],
        [{"text": "Done."}]
    ], "without_tools": [{"text": "T"}]})
}

fn at_terminal(case: &CliFixture, script: &Value, args: &[&str]) -> TerminalProgram {
    let model = scripted(case, script);
    let args = [&["run", "--model", &model], args].concat();
    TerminalProgram::start(&mut terminal_command(case, &args)).expect("started")
}

#[test]
fn permission_is_asked_at_the_terminal() {
    let case = asking();
    let mut program = at_terminal(&case, &two_commands(), &["go"]);
    program.wait_for("echo one >> log.txt\nAllow once [o]").expect("asked");
    assert!(!case.path("p/log.txt").exists(), "nothing runs before the answer");
    program.type_line("maybe").expect("typed");
    program.wait_for("maybe\nAllow once [o]").expect("asked again");
    program.type_line("o").expect("typed");
    program.wait_for("echo two >> log.txt\nAllow once [o]").expect("asked for the second");
    program.type_line("r use make instead").expect("typed");
    let (screen, status) = program.finish().expect("ended");
    assert!(status.success(), "{screen}");
    assert_eq!(read_file(&case.path("p/log.txt")), "one\n");
    assert!(screen.contains("Done."), "{screen}");
}

#[test]
fn question_is_answered_with_its_label() {
    let case = CliFixture::empty();
    let ask = json!({"questions": [{"question": "Which colour?", "header": "Colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]});
    let script = json!({"turns": [[{"tool": "question", "input": ask}], [{"text": "So be it."}]],
        "without_tools": [{"text": "T"}]});
    let mut program = at_terminal(&case, &script, &["go"]);
    program.wait_for("(empty: dismiss)?").expect("asked");
    program.type_line("2").expect("typed");
    let (screen, status) = program.finish().expect("ended");
    assert!(status.success() && screen.contains("So be it."), "{screen}");
    let exported = export_newest(&case);
    assert!(exported.contains(r#"\"Which colour?\"=\"blue\""#), "{exported}");
}

#[test]
fn without_a_terminal_what_must_be_asked_is_refused() {
    let case = asking();
    let ran = run_script(&case, &two_commands(), &["go"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("nobody could be asked: bash echo one >> log.txt"), "{}", ran.err);
    assert!(ran.err.contains("add `--auto`"), "{}", ran.err);
    assert!(!case.path("p/log.txt").exists());
}

#[test]
fn auto_allows_what_no_rule_denies() {
    let case = asking();
    let script = json!({"turns": [
        [
            {"tool": "bash", "input": {"command": "echo one >> log.txt"}},
            {"tool": "write", "input": {"filePath": "locked.txt", "content": "x"}}
        ],
        [{"text": "Done."}]
    ], "without_tools": [{"text": "T"}]});
    let ran = run_script(&case, &script, &["go", "--auto"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read_file(&case.path("p/log.txt")), "one\n");
    assert!(!case.path("p/locked.txt").exists());
    assert!(ran.err.contains("✗ write  locked.txt (failed)"), "{}", ran.err);
}

#[test]
fn an_agent_cannot_allow_anything_through_a_run_of_its_own() {
    let case = asking();
    let model = scripted(&case, &two_commands());
    let inner = case.run(&["exec", "--", "sh", "-c", "\"$0\" \"$@\"", "true"]);
    assert_eq!(inner.code, 0, "{inner:?}");
    let mut command = case.command("p", &["run", "--auto", "--model", &model, "go"]);
    command.env("TURNSTONE_SESSION", "ses_x");
    let ran = case.run_command(&mut command);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!case.path("p/log.txt").exists(), "{ran:?}");
}

#[test]
fn interrupt_ends_the_run_and_keeps_what_was_done_undoable() {
    let case = CliFixture::empty();
    let never = case.path("never");
    let script = json!({"turns": [
        [{"tool": "write", "input": {"filePath": "made.txt", "content": "x\n"}}],
        [{"text": "I wait."}, {"wait_for_file": never}]
    ], "without_tools": [{"text": "T"}]});
    let program = at_terminal(&case, &script, &["go"]);
    program.wait_for("I wait.").expect("streamed");
    program.interrupt().expect("interrupted");
    let (screen, status) = program.finish().expect("ended");
    assert_eq!(status.code(), Some(130), "{screen}");
    assert!(screen.contains("the run is being ended"), "{screen}");
    assert!(screen.contains("1 file changed: made.txt"), "{screen}");
    assert_eq!(case.run(&["undo"]).code, 0);
    assert!(!case.path("p/made.txt").exists());
}

#[test]
fn prompt_is_made_of_arguments_input_and_files() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/notes.txt"), "remember this").expect("written");
    let script = json!({"turns": [[{"text": "Yes."}]], "without_tools": [{"text": "T"}]});
    let model = scripted(&case, &script);
    let args = ["run", "--model", &model, "explain", "--file", "notes.txt"];
    let ran = case.run_command(case.command("p", &args).write_stdin("from a pipe"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let log = export_newest(&case);
    for part in ["explain", "from a pipe", "remember this"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let none = case.run(&["run", "--model", &model]);
    assert_eq!((none.code, none.err.contains("there is no prompt")), (1, true), "{none:?}");
    let missing = case.run(&["run", "--model", &model, "x", "--file", "gone.txt"]);
    assert!(missing.err.contains("it does not exist"), "{missing:?}");
}

#[test]
fn session_is_continued_with_its_agent_and_model() {
    let case = CliFixture::empty();
    let script = json!({"turns": [[{"text": "One."}], [{"text": "Two."}]], "without_tools": [{"text": "T"}]});
    let first = run_script(&case, &script, &["go", "--agent", "plan"]);
    assert_eq!(first.out, "One.\n", "{first:?}");
    let next = case.run(&["run", "--continue", "go on"]);
    assert_eq!(next.out, "Two.\n", "{next:?}");
    assert!(next.err.contains("> plan · scripted/"), "{}", next.err);
    let listed = case.run_json(&["session", "list"]);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn session_that_another_process_drives_is_busy() {
    let case = CliFixture::empty();
    let release = case.path("release");
    let script = json!({"turns": [[{"text": "I wait."}, {"wait_for_file": release}]],
        "without_tools": [{"text": "T"}]});
    let program = at_terminal(&case, &script, &["go"]);
    program.wait_for("I wait.").expect("streamed");
    let second = case.run(&["run", "--continue", "me too"]);
    assert_eq!(second.code, 4, "{second:?}");
    assert!(second.err.contains("busy") && second.err.contains("hint:"), "{}", second.err);
    fs_err::write(&release, "").expect("released");
    let (screen, status) = program.finish().expect("ended");
    assert!(status.success(), "{screen}");
}

#[test]
fn session_of_commands_is_continued_with_the_default_model() {
    let case = CliFixture::empty();
    assert_eq!(case.run(&["exec", "--", "/bin/true"]).code, 0);
    let ran = case.run(&["run", "--continue", "go on"]);
    assert!(ran.err.contains("no model is configured"), "{ran:?}");
    let script = json!({"turns": [[{"text": "Here."}]], "without_tools": [{"text": "T"}]});
    let ran = run_script(&case, &script, &["--continue", "go on"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Here.\n"), "{ran:?}");
    let listed = case.run_json(&["session", "list"]);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
}

/// A name in a repository must not lead to the keys of the user.
#[test]
fn links_out_of_the_directory_and_files_of_the_system_are_not_attached() {
    let case = CliFixture::empty();
    fs_err::write(case.path("secret"), "the key").expect("written");
    for (name, target) in [("NOTES.md", "/proc/self/environ"), ("KEY.md", "../secret")] {
        std::os::unix::fs::symlink(target, case.path("p").join(name)).expect("linked");
    }
    let script = json!({"turns": [[{"text": "Read."}]], "without_tools": [{"text": "T"}]});
    for file in ["NOTES.md", "KEY.md", "/proc/self/environ"] {
        let ran = run_script(&case, &script, &["-f", file, "go"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{file}: {ran:?}");
        assert!(ran.err.contains("error: cannot attach"), "{file}: {ran:?}");
    }
    let named = case.path("secret").to_string_lossy().into_owned();
    assert_eq!(run_script(&case, &script, &["-f", &named, "go"]).code, 0, "the person named it");
    assert!(export_newest(&case).contains("the key"));
}

#[test]
fn session_of_another_directory_is_not_continued_from_here() {
    let case = CliFixture::empty();
    let script = json!({"turns": [[{"text": "one"}], [{"tool": "write", "input": {
        "filePath": "where.txt", "content": "x" }}]], "without_tools": [{"text": "T"}]});
    assert_eq!(run_script(&case, &script, &["go"]).code, 0);
    let listed = case.run_json(&["session", "list"]);
    let session = listed["sessions"][0]["id"].as_str().expect("an id").to_owned();
    fs_err::create_dir_all(case.path("other")).expect("made");

    let model = scripted(&case, &script);
    let args = ["run", "--model", &model, "--auto", "--session", &session, "go on"];
    let ran = case.run_command(&mut case.command("other", &args));

    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("belongs to") && ran.err.contains("hint: change to"), "{ran:?}");
    assert!(!case.path("p/where.txt").exists() && !case.path("other/where.txt").exists());
}
