//! Space: whose undo gives way, what is refused, what is cleaned up without being asked.

use crate::case::{Case, Ran, read};
use crate::exec::{log, run};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the program in `p` with a configuration.
fn with(case: &Case, config: &str, args: &[&str]) -> Ran {
    let file = case.place("config.json");
    fs_err::write(&file, config).expect("written");
    let mut command = case.command("p", args);
    case.ran(command.env("PATH", PATH).env("TURNSTONE_CONFIG", file))
}

/// A command that makes a file of bytes that do not compress.
fn fill(case: &Case, config: &str, kilobytes: u32, more: &[&str]) -> Ran {
    let script = format!("head -c {kilobytes}k /dev/urandom > f");
    let words: Vec<&str> =
        [&["exec"], more, &["--", "sh", "-c", &script]].into_iter().flatten().copied().collect();
    with(case, config, &words)
}

const SMALL: &str = r#"{"snapshot":{"budget":"200 KiB"}}"#;

#[test]
fn the_log_shows_which_undo_expired_and_undo_says_so_r13() {
    let case = Case::empty();
    assert_eq!(fill(&case, SMALL, 50, &[]).code, 0);
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    for _ in 0..5 {
        let ran = fill(&case, SMALL, 50, &["--session", &session]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let shown = log(&case);
    let entries = shown["entries"].as_array().expect("entries");
    let turns: Vec<_> = entries.iter().filter(|entry| entry["type"] == "turn").collect();
    assert!(turns[0]["expired"].is_i64() && turns[5].get("expired").is_none(), "{shown}");
    assert!(entries.iter().any(|entry| entry["kind"] == "expire"));
    let text = run(&case, &["log"]);
    let first = turns[0]["id"].as_str().expect("an id");
    assert!(text.out.contains("(undo expired)"), "{}", text.out);
    assert!(text.out.contains(&format!("undo expired of {first}")), "{}", text.out);

    let before = fs_err::read(case.place("p/f")).expect("read");
    let refused = run(&case, &["undo", first]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("expired today") && refused.err.contains("hint: "), "{refused:?}");
    assert_eq!(fs_err::read(case.place("p/f")).expect("read"), before);
    assert_eq!(run(&case, &["undo"]).code, 0, "the newest turn can always be undone");
}

#[test]
fn a_command_without_room_is_refused_or_runs_without_undo_as_the_settings_say_r13() {
    let case = Case::empty();
    fs_err::write(case.place("p/big"), vec![b'x'; 100]).expect("written");
    let script = "head -c 300k /dev/urandom > big";
    assert_eq!(with(&case, SMALL, &["exec", "--", "sh", "-c", script]).code, 0);

    let refused = with(&case, SMALL, &["exec", "--", "touch", "ran"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.err.contains("of 204800 are used"), "with the sizes: {refused:?}");
    assert!(refused.err.contains("best-effort"), "and the remedy: {refused:?}");
    assert!(!case.place("p/ran").exists());

    let best = r#"{"undo":"best-effort","snapshot":{"budget":"200 KiB"}}"#;
    let ran = with(&case, best, &["exec", "--", "touch", "ran"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("cannot be undone"), "{ran:?}");
    assert!(case.place("p/ran").exists());
    assert_eq!(log(&case)["entries"][0]["not_covered"], 1, "and the turn says so");
}

#[test]
fn a_setting_nobody_knows_is_told_with_those_that_exist() {
    let case = Case::empty();
    let ran = with(&case, r#"{"snapshots":{}}"#, &["exec", "--", "true"]);
    assert_eq!(ran.code, 125);
    for word in ["`snapshots`", "`snapshot`", "`undo`", "`permission`"] {
        assert!(ran.err.contains(word), "{ran:?}");
    }
}

#[test]
fn the_spilled_output_of_deleted_sessions_goes_with_them_r41() {
    let case = Case::empty();
    let ran = run(&case, &["exec", "--", "sh", "-c", "seq 1 200000"]);
    assert_eq!(ran.code, 0);
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    assert_eq!(run(&case, &["exec", "--", "sh", "-c", "seq 1 200001"]).code, 0);
    let spilled = || fs_err::read_dir(case.data().join("output")).expect("a folder").count();
    assert_eq!(spilled(), 2);

    assert_eq!(run(&case, &["session", "delete", "--yes", &session]).code, 0);

    assert_eq!(spilled(), 1, "that of the other one stays");
    let left = log(&case)["session"].as_str().expect("a session").to_owned();
    let shown = run(&case, &["session", "show", &left, "--json"]).out;
    let path = fs_err::read_dir(case.data().join("output")).expect("a folder");
    let path = path.flatten().next().expect("a file").path();
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(shown.contains(&format!("output/{name}")));
    assert!(read(&path).len() > 1000);
}

#[test]
fn upkeep_runs_at_the_end_of_a_command_once_a_day_and_du_shows_it_r41() {
    let case = Case::empty();
    assert_eq!(run(&case, &["exec", "--", "touch", "a"]).code, 0);
    let du = run(&case, &["snapshot", "du", "--json"]);
    let du: serde_json::Value = serde_json::from_str(&du.out).expect("JSON");
    let last = du["here"]["usage"]["last_gc"].as_i64().expect("it ran");
    assert_eq!(run(&case, &["exec", "--", "touch", "b"]).code, 0);
    let du = run(&case, &["snapshot", "du", "--json"]);
    let du: serde_json::Value = serde_json::from_str(&du.out).expect("JSON");
    assert_eq!(du["here"]["usage"]["last_gc"].as_i64(), Some(last), "not twice a day");
}

#[test]
fn forgotten_files_are_planned_first_and_gone_afterwards_r20() {
    let case = Case::empty();
    let secret = "TOKEN=one-two-three-four";
    let ran =
        run(&case, &["exec", "--", "sh", "-c", &format!("echo {secret} | tee .env; echo a > a")]);
    assert_eq!(ran.code, 0);
    let holds = || {
        let (mut todo, mut found) = (vec![case.data()], 0);
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
    let planned = run(&case, &["forget", ".env", "--dry-run", "--json"]);
    let planned: serde_json::Value = serde_json::from_str(&planned.out).expect("JSON");
    assert_eq!(planned["bytes"], secret.len() + 1);
    assert_eq!(planned["sessions"][0]["turns"].as_array().map(Vec::len), Some(1));
    assert_eq!(planned["captured"]["versions"][0]["path"], ".env");
    let unasked = run(&case, &["forget", ".env"]);
    assert_eq!((unasked.code, holds() > 0), (1, true), "not without a yes: {unasked:?}");

    let ran = run(&case, &["forget", ".env", "--yes"]);
    assert_eq!((ran.code, holds()), (0, 0), "{ran:?}");
    assert!(ran.err.contains("forgot 1 version"), "{ran:?}");
    let log = run(&case, &["log"]);
    assert!(log.out.contains("forget of trn_") && log.out.contains("****"), "{}", log.out);
    let undone = run(&case, &["undo", "--json"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(undone.out.contains("forgotten") && case.place("p/.env").exists());
    assert!(!case.place("p/a").exists(), "the rest is taken back");
    assert_eq!(run(&case, &["doctor"]).code, 0);
}

#[test]
fn a_permission_rule_keeps_from_forgetting_r37() {
    let case = Case::empty();
    assert_eq!(run(&case, &["exec", "--", "sh", "-c", "echo some-secret > .env"]).code, 0);
    let deny = r#"{"permission":{"revert":"deny"}}"#;
    let refused = with(&case, deny, &["forget", ".env", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("permission"), "{refused:?}");
    let planned = run(&case, &["forget", ".env", "--dry-run"]);
    assert!(planned.out.contains(".env"), "it is still there: {planned:?}");
}
