//! `turnstone db`: where the file is, what takes the space, and giving it back.

use crate::fixture::{CliFixture, list_all_sessions};

#[test]
fn db_size_breaks_down_disk_usage() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["db", "size"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for name in ["database", "event log", "text", "search index", "free pages", "backups", "total"]
    {
        assert!(ran.out.lines().any(|line| line.trim().starts_with(name)), "{name}: {}", ran.out);
    }
    assert!(ran.out.contains("LARGEST SESSIONS"), "{}", ran.out);
    let sizes = case.run_json(&["db", "size", "--sessions", "1"]);
    let bytes = |name: &str| sizes[name].as_u64().expect("a size");
    assert!(bytes("database") > 0 && bytes("log") > 0);
    assert_eq!(sizes["sessions"][0]["id"], "ses_aaa1", "the one with messages is the largest");
    let inside = ["free", "log", "text", "blobs", "projections", "search", "other"].map(bytes);
    assert!(inside.iter().sum::<u64>() <= bytes("database"), "{sizes}");
}

#[test]
fn db_compact_keeps_sessions_unchanged() {
    let case = CliFixture::with_sessions();
    assert_eq!(case.run(&["session", "delete", "abc", "--yes"]).code, 0);
    let before = list_all_sessions(&case);
    let ran = case.run(&["db", "compact"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(ran.err.contains(" before, ") && ran.err.ends_with(" after\n"), "{}", ran.err);
    assert_eq!(list_all_sessions(&case), before);
    assert_eq!(case.run_json(&["db", "compact"])["finished"], true);
    assert_eq!(case.run(&["doctor"]).code, 0);
}

#[test]
fn backup_works_as_data_directory() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["db", "backup", "../copy"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "../copy\n"), "{ran:?}");
    assert!(
        ran.err.starts_with("copied ") && ran.err.ends_with("the copy is verified\n"),
        "{}",
        ran.err
    );
    let listed =
        |args: &[&str]| case.run(&[&["session", "list", "--all", "--json"], args].concat()).out;
    assert_eq!(listed(&["--data", "../copy"]), listed(&[]));
    let taken = case.run(&["db", "backup", "../copy"]);
    assert_eq!((taken.code, taken.out.as_str()), (1, ""));
    assert_eq!(taken.err, "error: ../copy already exists\n");
    let usual = case.run_json(&["db", "backup"]);
    assert!(usual["path"].as_str().is_some_and(|path| path.contains("/data/backup/2")), "{usual}");
    assert_eq!(usual["missing"], serde_json::json!([]));
}
