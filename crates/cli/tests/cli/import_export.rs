//! `turnstone import` and `export`, as a person uses them.

use insta::assert_snapshot;
use serde_json::Value;

use crate::exec::{exec_shell, read_log, run_program};
use crate::fixture::{CliFixture, read_file};

/// Without a source, OpenCode's own directory is imported; nobody is asked without a terminal.
#[test]
fn import_without_source_looks_in_the_usual_places() {
    let case = CliFixture::empty();
    let ran = case.run(&["import"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("no data of OpenCode in ~/home/.local/share/opencode"), "{ran:?}");
    let place = case.path("home/.local/share/opencode/storage/session/global");
    fs_err::create_dir_all(&place).expect("made");
    let session = serde_json::json!({
        "id": "ses_usual", "projectID": "global", "directory": case.path("p"), "version": "1",
        "title": "Found", "time": { "created": 1, "updated": 1 },
    });
    fs_err::write(place.join("ses_usual.json"), session.to_string()).expect("written");
    let ran = case.run(&["import"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("importing ") && ran.err.contains("~/home/.local/share/opencode"));
}

#[test]
fn export_import_round_trips() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["export", "aaa", "-o", "tide.json"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "exported ses_aaa1 to tide.json\n")
    );
    let file = case.path("p/tide.json");
    let fresh = CliFixture::empty();
    let ran = fresh.run(&["import", &file.to_string_lossy()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_snapshot!(ran.out, @r"
    KIND     FOUND  IMPORTED  UNCHANGED  ORPHANED  REJECTED
    project      1         1          0         0         0
    session      1         1          0         0         0
    message      3         3          0         0         0
    part         9         9          0         0         0
    ");
    let again = fresh.run_json(&["import", &file.to_string_lossy()]);
    assert_eq!(again["kinds"]["message"]["unchanged"], 3);
    let exported: Value = serde_json::from_str(&fresh.run(&["export", "aaa"]).out).expect("JSON");
    assert_eq!(exported, serde_json::from_str::<Value>(&read_file(&file)).expect("JSON"));
}

#[test]
fn sanitized_export_redacts_text() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["export", "aaa", "--sanitize"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("[redacted:") && !ran.out.contains("summer"), "{}", ran.out);
}

#[test]
fn import_reads_standard_input() {
    let case = CliFixture::with_sessions();
    let document = case.run(&["export", "aaa"]).out;
    let fresh = CliFixture::empty();
    let ran = fresh.run_command(fresh.command("p", &["import", "-"]).write_stdin(document));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(fresh.run(&["session", "show", "aaa"]).code, 0);
}

#[test]
fn invalid_import_source_is_refused_with_a_hint() {
    let case = CliFixture::empty();
    let ran = case.run(&["import", "/does/not/exist"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_snapshot!(ran.err, @r"
    error: /does/not/exist does not exist
    hint: give OpenCode's data directory (usually ~/.local/share/opencode), its opencode.db, its storage/ directory, an export file, or - for standard input
    ");
    fs_err::write(case.path("p/notes.txt"), "just words").expect("written");
    assert_eq!(case.run(&["import", "notes.txt"]).code, 1);
    assert!(!case.data_dir().exists(), "an import that did not begin creates nothing");
}

#[test]
fn export_of_unknown_session_writes_no_file() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["export", "zzz", "-o", "out.json"]);
    assert_eq!(ran.code, 1);
    assert!(!case.path("p/out.json").exists());
    let full = case.run(&["export", "aaa", "-o", "missing/out.json"]);
    assert_eq!(full.code, 1);
    assert!(full.err.starts_with("error: cannot write "), "{}", full.err);
}

/// An export whose session allows everything.
fn write_export_with_allow_rule(case: &CliFixture) -> String {
    let mut document: Value =
        serde_json::from_str(&CliFixture::with_sessions().run(&["export", "aaa"]).out)
            .expect("JSON");
    let rule = serde_json::json!({ "permission": "bash", "pattern": "*", "action": "allow" });
    document["info"]["permission"] = serde_json::json!([rule]);
    document["info"]["directory"] = case.path("nowhere").to_string_lossy().into();
    fs_err::write(case.path("p/x.json"), document.to_string()).expect("written");
    "x.json".to_owned()
}

#[test]
fn imported_rules_take_effect_only_with_trust() {
    let case = CliFixture::empty();
    let file = write_export_with_allow_rule(&case);
    let deny = r#"{"permission": {"bash": "deny"}}"#;
    fs_err::write(case.path("nowhere/turnstone.json"), deny).expect("written");
    let explain = || case.run_json(&["permission", "explain", "--session", "aaa", "bash", "ls"]);

    let ran = case.run(&["import", &file]);

    assert_eq!(ran.code, 0, "{ran:?}");
    let expected = "note: 1 permission rule not in effect; import again with --trust to activate them\n  \
                session ses_aaa1: bash \"*\" allow\n";
    assert!(ran.err.contains(expected), "{}", ran.err);
    assert_eq!(explain()["action"], "deny", "{}", explain());
    let json = case.run_json(&["import", &file]);
    assert_eq!(json["untrusted"]["rules"], 1, "{json}");
    assert_eq!(json["untrusted"]["listed"][0]["permission"], "bash");

    let ran = case.run(&["import", "--trust", &file]);

    assert!(ran.err.contains("note: 1 permission rule now in effect\n"), "{}", ran.err);
    assert_eq!(explain()["action"], "allow", "{}", explain());
    assert!(!case.run(&["import", &file]).err.contains("permission rule"));
    assert_eq!(explain()["action"], "allow", "a plain import revokes nothing");
}

#[test]
fn imported_session_does_not_hide_the_one_to_undo() {
    let case = CliFixture::empty();
    exec_shell(&case, "echo x > new");
    let mut document: Value =
        serde_json::from_str(&CliFixture::with_sessions().run(&["export", "aaa"]).out)
            .expect("JSON");
    document["info"]["directory"] = case.path("p").to_string_lossy().into();
    // Times in the future become the time of the import.
    document["info"]["time"]["updated"] = 9_000_000_000_000_u64.into();
    fs_err::write(case.path("x.json"), document.to_string()).expect("written");
    assert_eq!(run_program(&case, &["import", "../x.json"]).code, 0);
    let listed = case.run_json(&["session", "list"]);
    assert_eq!(listed["sessions"][0]["id"], "ses_aaa1", "{listed}");

    assert_eq!(read_log(&case)["title"], "sh -c 'echo x > new'");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/new").exists());
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(case.path("p/new").exists());

    // Once it is continued here, it is the newest one.
    let more = ["exec", "--session", "aaa", "--", "sh", "-c", "echo y > other"];
    assert_eq!(run_program(&case, &more).code, 0);
    assert_eq!(read_log(&case)["session"], "ses_aaa1");
}

/// Runs an import that may have no more than 300 MB of memory.
fn import_within_limit(case: &CliFixture, file: &str) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_turnstone");
    let script = "ulimit -d 300000 && exec \"$0\" import --json \"$1\"";
    let output = assert_cmd::Command::new("sh")
        .args(["-c", script, program, file])
        .env_clear()
        .env("PATH", crate::exec::TEST_PATH)
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path("p"))
        .output()
        .expect("it runs");
    let output_text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output_text).into_owned())
}

/// A hostile export: `unit` again and again between a beginning and an end, `bytes` in all.
fn write_hostile_export(case: &CliFixture, bytes: usize, (head, unit, tail): (&str, &str, &str)) {
    let info = r#"{"info":{"id":"ses_x","projectID":"p","directory":"/w","title":"t"},"messages":"#;
    let body = unit.repeat(bytes / unit.len());
    let text = [info, head, &body, tail, "}"].concat();
    fs_err::write(case.path("p/hostile.json"), text).expect("written");
}

const MESSAGE_PREFIX: &str =
    r#"[{"info":{"id":"msg_1","role":"user","time":{"created":1}},"parts":["#;

#[test]
fn import_of_invalid_elements_uses_little_memory() {
    let case = CliFixture::empty();
    write_hostile_export(&case, 50_000_000, ("[", "0,", "0]"));
    let (code, output_text) = import_within_limit(&case, "hostile.json");
    assert_eq!(code, 1, "{output_text}");
    assert!(
        output_text.contains("more than 10000 of its elements are not objects"),
        "{output_text}"
    );
}

#[test]
fn import_of_one_huge_element_uses_little_memory() {
    for (head, unit, tail) in [
        (r#"{"id":"prt_1","type":"text","text":"x","metadata":{"k":["#, "0,", "0]}}]}]"),
        (r#"{"id":"prt_1","type":"text","text":""#, "x", "\"}]}]"),
        ("", "[", ""),
    ] {
        let case = CliFixture::empty();
        write_hostile_export(&case, 20_000_000, (&format!("{MESSAGE_PREFIX}{head}"), unit, tail));
        let (code, output_text) = import_within_limit(&case, "hostile.json");
        assert!([0, 1].contains(&code), "{}", output_text.chars().take(2_000).collect::<String>());
        assert!(!output_text.contains("memory allocation"), "{output_text}");
    }
}

#[test]
fn import_of_many_wide_elements_uses_little_memory() {
    let case = CliFixture::empty();
    let wide = format!("[{}0]", "0,".repeat(90_000));
    let part = |n: u32| {
        format!(r#"{{"id":"prt_{n}","type":"text","text":"x","metadata":{{"k":{wide}}}}}"#)
    };
    let parts: Vec<String> = (0..40).map(part).collect();
    let info = r#"{"id":"ses_x","projectID":"p","directory":"/w","title":"t"}"#;
    let text = format!(r#"{{"info":{info},"messages":{MESSAGE_PREFIX}{}]}}]}}"#, parts.join(","));
    fs_err::write(case.path("p/hostile.json"), text).expect("written");
    let (code, output_text) = import_within_limit(&case, "hostile.json");
    assert_eq!(code, 0, "{}", output_text.chars().take(2_000).collect::<String>());
    let report: Value = serde_json::from_str(&output_text).expect("JSON");
    assert_eq!(report["kinds"]["part"]["imported"], 40, "{report}");
}
