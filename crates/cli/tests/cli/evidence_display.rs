//! `diff` and `session show` say how each change is known, and what others changed meanwhile.

use serde_json::{Value, json};

use crate::exec::{exec_shell, read_log, run_program};
use crate::exec_traced::HalfDone;
use crate::fixture::CliFixture;
use crate::undo_modes::write_file;

/// A traced command that changed `mine` and made `made` while a person saved `theirs`.
fn disturbed_command() -> CliFixture {
    let case = CliFixture::empty();
    write_file(&case, "mine", "one\n");
    write_file(&case, "theirs", "one\n");
    let half = HalfDone::start(&case, "c", "echo two > mine", "echo new > made");
    write_file(&case, "theirs", "by a person\n");
    half.finish(&case);
    case
}

fn read_json(case: &CliFixture, args: &[&str]) -> Value {
    let ran = run_program(case, args);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

const FOREIGN: &str = "1 file changed by others during this command was left alone: theirs";

/// Proves R2.
#[test]
fn diff_tells_evidence_and_what_others_changed() {
    let case = disturbed_command();
    for args in [&["diff"][..], &["diff", "@1"]] {
        let ran = run_program(&case, args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("evidence: 2 traced\n"), "{ran:?}");
        assert!(ran.err.contains(FOREIGN), "{ran:?}");
        assert!(!ran.out.contains("theirs"), "{ran:?}");
    }
    let stat = run_program(&case, &["diff", "--stat"]);
    let rows: Vec<Vec<&str>> =
        stat.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let made = ["added", "+1", "-0", "traced", "made"];
    let mine = ["modified", "+1", "-1", "traced", "mine"];
    assert_eq!(rows, [made, mine]);

    let json = read_json(&case, &["diff", "--json"]);
    for file in json["files"].as_array().expect("files") {
        assert_eq!(file["evidence"], "traced", "{file}");
    }
    assert_eq!(json["traces"][0]["others"]["paths"], json!(["theirs"]));
    let newest = read_log(&case)["entries"][0]["id"].clone();
    assert_eq!(json["traces"][0]["turn"], newest);
}

/// Proves R2: what several calls changed is known only as well as its least certain part.
#[test]
fn diff_of_a_session_tells_the_least_certain_evidence() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo one > both; echo one > traced");
    let ran = run_program(&case, &["exec", "--no-trace", "--", "sh", "-c", "echo two >> both"]);
    assert_eq!(ran.code, 0, "{ran:?}");

    let files = read_json(&case, &["diff", "--json"])["files"].clone();
    let evidence = |index: usize| files[index]["evidence"].as_str().map(str::to_owned);
    assert_eq!([evidence(0), evidence(1)].map(Option::unwrap), ["window", "traced"]);
    let ran = run_program(&case, &["diff"]);
    assert!(ran.err.contains("evidence: 1 window, 1 traced\n"), "{ran:?}");
}

/// A command that was undone says nothing about the present.
#[test]
fn diff_omits_the_traces_of_undone_commands() {
    let case = disturbed_command();
    assert_eq!(run_program(&case, &["undo"]).code, 0);

    let session = read_json(&case, &["diff", "--json"]);
    assert_eq!((&session["files"], &session["traces"]), (&json!([]), &json!([])));
    let turn = read_json(&case, &["diff", "@1", "--json"]);
    assert_eq!(turn["traces"][0]["others"]["paths"], json!(["theirs"]));
}

/// Proves R2.
#[test]
fn transcript_tells_what_each_call_changed_and_how_that_is_known() {
    let case = disturbed_command();
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let untraced = ["exec", "--session", &session, "--no-trace", "--", "sh", "-c", "rm made"];
    assert_eq!(run_program(&case, &untraced).code, 0);

    let ran = run_program(&case, &["session", "show", &session]);
    assert!(ran.out.contains("± 2 files changed (traced): A made, M mine\n"), "{ran:?}");
    assert!(ran.out.contains(FOREIGN), "{ran:?}");
    assert!(ran.out.contains("± 1 file changed (window): D made\n"), "{ran:?}");

    let changes = read_json(&case, &["session", "show", &session, "--json"])["changes"].clone();
    let evidence = [&changes[0]["evidence"], &changes[1]["evidence"]];
    assert_eq!(evidence, [&json!("traced"), &json!("window")]);
    assert_eq!(changes[0]["files"][1], json!({"path": "mine", "status": "M"}));
    assert_eq!(changes[0]["trace"]["others"]["paths"], json!(["theirs"]));
    assert_eq!(changes[1]["trace"], Value::Null);
}
