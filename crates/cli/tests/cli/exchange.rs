//! `turnstone import` and `export`, as a person uses them.

use insta::assert_snapshot;
use serde_json::Value;

use crate::case::{Case, read};

#[test]
fn an_export_is_imported_elsewhere_and_exported_the_same() {
    let case = Case::filled();
    let ran = case.run(&["export", "aaa", "-o", "tide.json"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "wrote ses_aaa1 to tide.json\n")
    );
    let file = case.place("p/tide.json");
    let fresh = Case::empty();
    let ran = fresh.run(&["import", &file.to_string_lossy()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_snapshot!(ran.out, @r"
    KIND     FOUND  IMPORTED  UNCHANGED  ORPHANED  REJECTED
    project      1         1          0         0         0
    session      1         1          0         0         0
    message      3         3          0         0         0
    part         9         9          0         0         0
    ");
    let again = fresh.json(&["import", &file.to_string_lossy()]);
    assert_eq!(again["kinds"]["message"]["unchanged"], 3);
    let exported: Value = serde_json::from_str(&fresh.run(&["export", "aaa"]).out).expect("JSON");
    assert_eq!(exported, serde_json::from_str::<Value>(&read(&file)).expect("JSON"));
}

#[test]
fn an_export_can_leave_the_words_out() {
    let case = Case::filled();
    let ran = case.run(&["export", "aaa", "--sanitize"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("[redacted:") && !ran.out.contains("summer"), "{}", ran.out);
}

#[test]
fn an_export_is_read_from_standard_input() {
    let case = Case::filled();
    let document = case.run(&["export", "aaa"]).out;
    let fresh = Case::empty();
    let ran = fresh.ran(fresh.command("p", &["import", "-"]).write_stdin(document));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(fresh.run(&["session", "show", "aaa"]).code, 0);
}

#[test]
fn a_source_that_is_none_is_refused_with_a_hint() {
    let case = Case::empty();
    let ran = case.run(&["import", "/does/not/exist"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_snapshot!(ran.err, @r"
    error: /does/not/exist does not exist
    hint: name OpenCode's data directory (usually ~/.local/share/opencode), its opencode.db, its storage/ directory, an export file, or - for standard input
    ");
    fs_err::write(case.place("p/notes.txt"), "just words").expect("written");
    assert_eq!(case.run(&["import", "notes.txt"]).code, 1);
    assert!(!case.data().exists(), "nothing was made for an import that did not begin");
}

#[test]
fn an_unknown_session_is_not_exported() {
    let case = Case::filled();
    let ran = case.run(&["export", "zzz", "-o", "out.json"]);
    assert_eq!(ran.code, 1);
    assert!(!case.place("p/out.json").exists());
    let full = case.run(&["export", "aaa", "-o", "missing/out.json"]);
    assert_eq!(full.code, 1);
    assert!(full.err.starts_with("error: cannot write the export\n  "), "{}", full.err);
}
