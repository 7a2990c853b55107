//! `turnstone doctor`, on sound data and on damaged data.

use std::io::{Seek, SeekFrom, Write};

use insta::assert_snapshot;

use crate::fixture::{CliFixture, list_all_sessions};

/// Masks numbers, which change with every page.
fn mask_numbers(text: &str) -> String {
    let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let text: String = text.chars().map(digits).collect();
    text.lines()
        .map(|line| line.split("  ").filter(|word| !word.trim_start().starts_with('#')))
        .map(|words| words.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn doctor_reports_sound_data() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(mask_numbers(&ran.out), @r"
    ~/data
      backup/
      blob/
      lock/
      turnstone.db
      schema #, ## events
      ! git is not installed, or not in PATH
        hint: install git #.## or newer
      tracing  on; what others change while a command runs is left alone

    ✓ data directory
    ✓ database file
    ✓ integrity
    ✓ schema
    ✓ settings
    ✓ references
    ✓ events
    ✓ sequences
    ✓ long values
    ✓ files of long values
    ✓ streamed text
    ✓ turns
    ✓ consumers
    ✓ projections

    no problems found
    ");
    let seen = case.run_json(&["doctor"]);
    assert!(seen["git"]["hint"].is_string(), "{}", seen["git"]);
    assert_eq!((&seen["sound"], &seen["findings"]), (&true.into(), &serde_json::json!([])));
    assert!(
        seen["sizes"]
            .as_array()
            .is_some_and(|sizes| sizes.iter().any(|s| s["name"] == "turnstone.db"))
    );
}

#[test]
fn doctor_accepts_missing_database_and_creates_none() {
    let case = CliFixture::empty();
    let ran = case.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("there is no database yet"), "{}", ran.out);
    assert!(!case.data_dir().join("turnstone.db").exists());
}

#[test]
fn damaged_database_is_reported_and_salvaged() {
    let case = CliFixture::with_sessions();
    let file = case.data_dir().join("turnstone.db");
    assert_eq!(case.run(&["session", "list"]).code, 0);
    let mut damaged = fs_err::OpenOptions::new().write(true).open(&file).expect("opens");
    let middle = damaged.metadata().expect("size").len() / 2;
    damaged.seek(SeekFrom::Start(middle)).expect("seeks");
    damaged.write_all(&[0xAA; 8192]).expect("writes");
    drop(damaged);
    let ran = case.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.out.contains("✗ integrity") && ran.out.contains("turnstone doctor --salvage DIR"),
        "{}",
        ran.out
    );
    let before = fs_err::read(&file).expect("readable");
    let saved = case.run(&["doctor", "--salvage", "../rescued"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    assert!(saved.err.contains("hint: use the new data directory with `--data"), "{}", saved.err);
    assert_eq!(fs_err::read(&file).expect("readable"), before, "the damaged file is unchanged");
    let listed = case.run(&["session", "list", "--all", "--data", "../rescued"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert_eq!(case.run(&["doctor", "--salvage", "../rescued"]).code, 1, "it is not overwritten");
}

#[test]
fn rebuild_keeps_sessions_unchanged() {
    let case = CliFixture::with_sessions();
    let before = list_all_sessions(&case);
    let ran = case.run(&["doctor", "--rebuild"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(ran.err.starts_with("rebuilt the tables from "), "{}", ran.err);
    assert_eq!(list_all_sessions(&case), before);
}

#[test]
fn rebuild_of_open_store_exits_with_4() {
    let case = CliFixture::with_sessions();
    let open = case.open_store();
    let ran = case.run(&["doctor", "--rebuild"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(ran.err.contains("is open in another process"), "{}", ran.err);
    assert!(ran.err.ends_with("hint: wait for the other process, or end it\n"), "{}", ran.err);
    drop(open);
    assert_eq!(case.run(&["doctor", "--rebuild"]).code, 0);
}
