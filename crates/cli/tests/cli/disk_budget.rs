//! Space: whose undo gives way, what is refused, what is cleaned up without being asked.

use crate::exec::{read_log, run_program};
use crate::fixture::{CliFixture, ProgramOutput, read_file};

const TEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the program in `p` with a configuration.
fn run_with_config(case: &CliFixture, config: &str, args: &[&str]) -> ProgramOutput {
    let file = case.path("config.json");
    fs_err::write(&file, config).expect("written");
    let mut command = case.command("p", args);
    case.run_command(command.env("PATH", TEST_PATH).env("TURNSTONE_CONFIG", file))
}

/// A command that makes a file of bytes that do not compress.
fn exec_random_file(
    case: &CliFixture,
    config: &str,
    kilobytes: u32,
    more: &[&str],
) -> ProgramOutput {
    let script = format!("head -c {kilobytes}k /dev/urandom > f");
    let args: Vec<&str> =
        [&["exec"], more, &["--", "sh", "-c", &script]].into_iter().flatten().copied().collect();
    run_with_config(case, config, &args)
}

const SMALL_BUDGET_CONFIG: &str = r#"{"snapshot":{"budget":"200 KiB"}}"#;

/// Proves R13.
#[test]
fn expired_undo_is_shown_in_log_and_refused() {
    let case = CliFixture::empty();
    assert_eq!(exec_random_file(&case, SMALL_BUDGET_CONFIG, 50, &[]).code, 0);
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    for _ in 0..5 {
        let ran = exec_random_file(&case, SMALL_BUDGET_CONFIG, 50, &["--session", &session]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let shown = read_log(&case);
    let entries = shown["entries"].as_array().expect("entries");
    let turns: Vec<_> = entries.iter().filter(|entry| entry["type"] == "turn").collect();
    assert!(turns[0]["expired"].is_i64() && turns[5].get("expired").is_none(), "{shown}");
    assert!(entries.iter().any(|entry| entry["kind"] == "expire"));
    let text = run_program(&case, &["log"]);
    let first = turns[0]["id"].as_str().expect("an id");
    assert!(text.out.contains("(undo expired)"), "{}", text.out);
    let (_, expired) = text.out.rsplit_once("undo expired of ").expect("an operation");
    let id = expired.split([',', '\n']).next().expect("an ID");
    assert!(first.starts_with(id), "{}", text.out);

    let before = fs_err::read(case.path("p/f")).expect("read");
    let refused = run_program(&case, &["undo", first]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("no file was changed: f\n"), "{refused:?}");
    assert!(refused.err.contains("expired today") && refused.err.contains("hint: "), "{refused:?}");
    assert_eq!(fs_err::read(case.path("p/f")).expect("read"), before);
    assert_eq!(run_program(&case, &["undo"]).code, 0, "the newest turn can always be undone");
}

/// Proves R13.
#[test]
fn over_budget_exec_is_refused_or_runs_without_undo() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/big"), vec![b'x'; 100]).expect("written");
    let script = "head -c 300k /dev/urandom > big";
    assert_eq!(
        run_with_config(&case, SMALL_BUDGET_CONFIG, &["exec", "--", "sh", "-c", script]).code,
        0
    );

    let refused = run_with_config(&case, SMALL_BUDGET_CONFIG, &["exec", "--", "touch", "ran"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.err.contains("of 204800 are used"), "with the sizes: {refused:?}");
    assert!(refused.err.contains("best-effort"), "and the remedy: {refused:?}");
    assert!(!case.path("p/ran").exists());

    let best = r#"{"undo":"best-effort","snapshot":{"budget":"200 KiB"}}"#;
    let ran = run_with_config(&case, best, &["exec", "--", "touch", "ran"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("cannot be undone"), "{ran:?}");
    assert!(case.path("p/ran").exists());
    assert_eq!(read_log(&case)["entries"][0]["not_covered"], 1, "and the turn reports it");
}

#[test]
fn unknown_setting_is_reported_with_known_ones() {
    let case = CliFixture::empty();
    let ran = run_with_config(&case, r#"{"snapshots":{}}"#, &["exec", "--", "true"]);
    assert_eq!(ran.code, 125);
    for word in ["`snapshots`", "`snapshot`", "`undo`", "`permission`"] {
        assert!(ran.err.contains(word), "{ran:?}");
    }
}

/// Proves R41.
#[test]
fn deleting_a_session_removes_its_spilled_output() {
    let case = CliFixture::empty();
    let ran = run_program(&case, &["exec", "--", "sh", "-c", "seq 1 200000"]);
    assert_eq!(ran.code, 0);
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    assert_eq!(run_program(&case, &["exec", "--new", "--", "sh", "-c", "seq 1 200001"]).code, 0);
    let spilled = || fs_err::read_dir(case.data_dir().join("output")).expect("a folder").count();
    assert_eq!(spilled(), 2);

    assert_eq!(run_program(&case, &["session", "delete", "--yes", &session]).code, 0);

    assert_eq!(spilled(), 1, "that of the other one stays");
    let left = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run_program(&case, &["session", "show", &left, "--json"]).out;
    let path = fs_err::read_dir(case.data_dir().join("output")).expect("a folder");
    let path = path.flatten().next().expect("a file").path();
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(shown.contains(&format!("output/{name}")));
    assert!(read_file(&path).len() > 1000);
}

/// Proves R41.
#[test]
fn maintenance_runs_once_a_day_after_a_command() {
    let case = CliFixture::empty();
    assert_eq!(run_program(&case, &["exec", "--", "touch", "a"]).code, 0);
    let du = run_program(&case, &["snapshot", "du", "--json"]);
    let du: serde_json::Value = serde_json::from_str(&du.out).expect("JSON");
    let last = du["here"]["usage"]["last_gc"].as_i64().expect("it ran");
    assert_eq!(run_program(&case, &["exec", "--", "touch", "b"]).code, 0);
    let du = run_program(&case, &["snapshot", "du", "--json"]);
    let du: serde_json::Value = serde_json::from_str(&du.out).expect("JSON");
    assert_eq!(du["here"]["usage"]["last_gc"].as_i64(), Some(last), "not twice a day");
}

/// Proves R20.
#[test]
fn forget_previews_and_removes_stored_versions() {
    let case = CliFixture::empty();
    let secret = "TOKEN=one-two-three-four";
    let ran = run_program(
        &case,
        &["exec", "--", "sh", "-c", &format!("echo {secret} | tee .env; echo a > a")],
    );
    assert_eq!(ran.code, 0);
    let holds = || {
        let (mut todo, mut found) = (vec![case.data_dir()], 0);
        while let Some(folder) = todo.pop() {
            for entry in fs_err::read_dir(folder).expect("reads").flatten() {
                let kind = entry.file_type().expect("a kind");
                if kind.is_dir() {
                    todo.push(entry.path());
                } else if kind.is_file() {
                    let bytes = fs_err::read(entry.path()).expect("reads");
                    found += usize::from(String::from_utf8_lossy(&bytes).contains(secret));
                }
            }
        }
        found
    };
    assert!(holds() > 0);
    let planned = run_program(&case, &["forget", ".env", "--dry-run", "--json"]);
    let planned: serde_json::Value = serde_json::from_str(&planned.out).expect("JSON");
    assert_eq!(planned["bytes"], secret.len() + 1);
    assert_eq!(planned["sessions"][0]["turns"].as_array().map(Vec::len), Some(1));
    assert_eq!(planned["captured"]["versions"][0]["path"], ".env");
    let unasked = run_program(&case, &["forget", ".env"]);
    assert_eq!((unasked.code, holds() > 0), (1, true), "not confirmed: {unasked:?}");

    let ran = run_program(&case, &["forget", ".env", "--yes"]);
    assert_eq!((ran.code, holds()), (0, 0), "{ran:?}");
    assert!(ran.err.contains("erased 1 version"), "{ran:?}");
    let log = run_program(&case, &["log"]);
    assert!(log.out.contains("forget of trn_") && log.out.contains("****"), "{}", log.out);
    let undone = run_program(&case, &["undo", "--json"]);
    assert_eq!(undone.code, 4, "a file could not be undone: {undone:?}");
    assert!(undone.out.contains("forgotten") && case.path("p/.env").exists());
    assert!(!case.path("p/a").exists(), "the rest is undone");
    assert_eq!(run_program(&case, &["doctor"]).code, 0);
}

/// Proves R37.
#[test]
fn permission_rule_denies_forget() {
    let case = CliFixture::empty();
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", "echo some-secret > .env"]).code, 0);
    let deny = r#"{"permission":{"revert":"deny"}}"#;
    let refused = run_with_config(&case, deny, &["forget", ".env", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("permission"), "{refused:?}");
    let planned = run_program(&case, &["forget", ".env", "--dry-run"]);
    assert!(planned.out.contains(".env"), "it is still there: {planned:?}");
}
