//! `turnstone doctor`, on sound data and on damaged data.

use std::io::{Seek, SeekFrom, Write};

use insta::assert_snapshot;

use crate::case::{Case, session_rows};

/// The figures change with every page; the words do not.
fn without_figures(text: &str) -> String {
    let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let text: String = text.chars().map(digits).collect();
    text.lines()
        .map(|line| line.split("  ").filter(|word| !word.trim_start().starts_with('#')))
        .map(|words| words.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn sound_data_is_called_sound() {
    let case = Case::filled();
    let ran = case.run(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(without_figures(&ran.out), @r"
    ~/data
      backup/
      blob/
      lock/
      turnstone.db
      schema #, ## events
      ! git is not installed, or not in PATH
        hint: install git #.## or newer

    ✓ place
    ✓ file
    ✓ integrity
    ✓ schema
    ✓ settings
    ✓ references
    ✓ events
    ✓ sequences
    ✓ values
    ✓ files
    ✓ texts
    ✓ turns
    ✓ consumers
    ✓ projections

    all is well
    ");
    let seen = case.json(&["doctor"]);
    assert!(seen["git"]["hint"].is_string(), "{}", seen["git"]);
    assert_eq!((&seen["sound"], &seen["findings"]), (&true.into(), &serde_json::json!([])));
    assert!(
        seen["sizes"]
            .as_array()
            .is_some_and(|sizes| sizes.iter().any(|s| s["name"] == "turnstone.db"))
    );
}

#[test]
fn a_place_without_data_is_not_ill_and_stays_empty() {
    let case = Case::empty();
    let ran = case.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("there is no database yet"), "{}", ran.out);
    assert!(!case.data().join("turnstone.db").exists());
}

#[test]
fn damaged_data_is_named_and_can_be_salvaged() {
    let case = Case::filled();
    let file = case.data().join("turnstone.db");
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
    assert_eq!(fs_err::read(&file).expect("readable"), before, "the damaged file is as it was");
    let listed = case.run(&["session", "list", "--all", "--data", "../rescued"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert_eq!(case.run(&["doctor", "--salvage", "../rescued"]).code, 1, "it is not overwritten");
}

#[test]
fn a_rebuild_gives_the_same_sessions() {
    let case = Case::filled();
    let before = session_rows(&case);
    let ran = case.run(&["doctor", "--rebuild"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(ran.err.starts_with("the tables were made anew from "), "{}", ran.err);
    assert_eq!(session_rows(&case), before);
}

#[test]
fn a_store_in_use_is_not_rebuilt_and_ends_with_4() {
    let case = Case::filled();
    let open = case.store();
    let ran = case.run(&["doctor", "--rebuild"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(ran.err.contains("is open in another process"), "{}", ran.err);
    assert!(ran.err.ends_with("hint: end the other process or wait for it\n"), "{}", ran.err);
    drop(open);
    assert_eq!(case.run(&["doctor", "--rebuild"]).code, 0);
}
