//! `turnstone exec`: exit code and output of a command are stored, found and removed.

use std::path::Path;

use serde_json::Value;

use crate::exec::{TEST_PATH, exec_shell, read_log, run_program, start_program};
use crate::fixture::{CliFixture, ProgramOutput};

/// The tool call of the newest session.
fn read_tool_state(case: &CliFixture) -> Value {
    let session = read_log(case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(case, &["session", "show", &session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    shown["messages"][1]["parts"][0]["state"].clone()
}

fn count_hits(case: &CliFixture, word: &str) -> usize {
    let ran = run_program(case, &["search", word, "--json"]);
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    found["hits"].as_array().expect("a list").len()
}

/// True if a file of the folder holds the word.
fn is_word_stored(folder: &Path, word: &str) -> bool {
    fs_err::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => is_word_stored(&path, word),
            false => fs_err::read(&path)
                .is_ok_and(|bytes| bytes.windows(word.len()).any(|it| it == word.as_bytes())),
        }
    })
}

/// Proves R33.
#[test]
fn failed_command_keeps_exit_code_and_words_of_its_output() {
    let case = CliFixture::empty();
    let printed = "\u{1b}[31mredword\u{1b}[0m\n";
    let ran = exec_shell(&case, "printf '\\033[31mred''word\\033[0m\\n'; exit 7");
    assert_eq!((ran.code, ran.out.as_str()), (7, printed), "{ran:?}");
    let turn = &read_log(&case)["entries"][0];
    assert_eq!((turn["state"].as_str(), turn["exit_code"].as_i64()), (Some("failed"), Some(7)));
    let log = run_program(&case, &["log"]).out;
    assert!(log.contains("failed (exit code 7)"), "{log}");
    let state = read_tool_state(&case);
    assert_eq!((&state["output"], &state["metadata"]["exit"]), (&"redword\n".into(), &7.into()));
    assert_eq!(count_hits(&case, "redword"), 1);
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(&case, &["session", "show", &session]).out;
    assert!(shown.contains("(exit code 7)\n    redword"), "{shown}");
    assert!(run_program(&case, &["export", &session]).out.contains("redword\\n"));

    assert_eq!(exec_shell(&case, "true").code, 0);
    assert_eq!(read_log(&case)["entries"][1]["state"], "completed");
}

/// Proves R33.
#[test]
fn command_ended_by_a_signal_has_failed_and_log_names_the_signal() {
    let case = CliFixture::empty();
    assert_eq!(exec_shell(&case, "kill -KILL $$").code, 137);
    let turn = read_log(&case)["entries"][0].clone();
    assert_eq!(
        (turn["state"].as_str(), turn["exit_code"].as_i64(), turn["signal"].as_str()),
        (Some("failed"), Some(137), Some("SIGKILL"))
    );
    let log = run_program(&case, &["log"]).out;
    assert!(log.contains("failed (SIGKILL)"), "{log}");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(&case, &["session", "show", &session]).out;
    assert!(shown.contains("(SIGKILL)"), "{shown}");

    // As if a person had pressed the key.
    assert_eq!(exec_shell(&case, "kill -INT $$").code, 130);
    assert_eq!(read_log(&case)["entries"][1]["state"], "aborted");
    let log = run_program(&case, &["log"]).out;
    assert!(log.contains("aborted (SIGINT)"), "{log}");
}

#[test]
fn undo_takes_a_failed_command() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo >left; exit 1");
    let ran = run_program(&case, &["undo"]);
    assert_eq!((ran.code, case.path("p/left").exists()), (0, false), "{ran:?}");
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(case.path("p/left").exists());
}

#[test]
fn output_is_not_stored_on_request() {
    let case = CliFixture::empty();
    let script = "echo lav''ender; head -c 300000 /dev/zero";
    let run = |config: &str, args: &[&str]| -> ProgramOutput {
        let file = case.path("config.json");
        fs_err::write(&file, config).expect("written");
        let args = [args, &["--", "sh", "-c", script]].concat();
        let mut command = case.command("p", &args);
        case.run_command(command.env("PATH", TEST_PATH).env("TURNSTONE_CONFIG", &file))
    };
    let off = r#"{"exec":{"keep_output":false}}"#;
    for (config, args) in [("{}", &["exec", "--no-output"][..]), (off, &["exec"])] {
        let ran = run(config, args);
        assert!(ran.code == 0 && ran.out.starts_with("lavender\n"), "{}", ran.err);
        let state = read_tool_state(&case);
        assert_eq!(state["output"], "");
        assert_eq!(state["metadata"]["outputStored"], false);
        assert!(!is_word_stored(&case.data_dir(), "lavender"));
    }
    run("{}", &["exec"]);
    assert!(is_word_stored(&case.data_dir(), "lavender"));
}

/// Proves R45.
#[test]
fn killed_exec_keeps_the_output_so_far() {
    let case = CliFixture::empty();
    let script = "echo lan''tern; exec sleep 600";
    let mut running = start_program(&case, &["exec", "--", "sh", "-c", script]);
    for _ in 0..2_400 {
        if case.path("data/turnstone.db").exists()
            && run_program(&case, &["log", "--json"]).code == 0
            && read_tool_state(&case)["metadata"]["output"] == "lantern\n"
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    running.kill().expect("killed");
    running.wait().expect("reaped");
    assert_eq!(count_hits(&case, "lantern"), 1, "search recovers nothing, the output is there");
    assert_eq!(read_log(&case)["entries"][0]["state"], "interrupted");
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(&case, &["session", "show", &session]).out;
    assert!(shown.contains("    lantern"), "{shown}");
}
