//! The doctor: finds each kind of damage, names the remedy, and changes nothing.

mod support;

use std::path::Path;

use serde_json::json;
use support::{NOW, ctx, open, part, pid, raw, sid, text, user, with_sessions, write};
use turnstone_core::turn::TurnEvent;
use turnstone_store::{
    DataLayout, Diagnosis, Finding, LeaseTakeoverPolicy, NewTurn, Options, Severity, Store,
    diagnose,
};

fn examine(dir: &Path) -> Diagnosis {
    diagnose(&DataLayout::new(dir), NOW)
}

/// A store with something of everything, closed.
fn fill_store(dir: &Path) {
    let store = with_sessions(dir, &["ses_a", "ses_b"]);
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_in", &"inside ".repeat(1000)))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_file", &"a file ".repeat(50_000)))?;
        let live = json!({"type": "text", "text": "", "time": {"start": 1}});
        tx.messages().put_part(&part("ses_a", "msg_a", "prt_live", live))?;
        tx.messages().append_text(&sid("ses_a"), &pid("prt_live"), "streamed text")?;
        let sealed =
            json!({"type": "text", "text": "streamed text", "time": {"start": 1, "end": 2}});
        tx.messages().put_part(&part("ses_a", "msg_a", "prt_live", sealed))?;
        tx.messages().put(&user("ses_b", "msg_b", 1))
    })
    .expect("written");
}

/// What the doctor says after `sql` was run on a sound store.
fn findings_after(sql: &str) -> Vec<Finding> {
    let dir = tempfile::tempdir().expect("temp dir");
    fill_store(dir.path());
    raw(dir.path()).execute_batch(sql).expect("damaged");
    examine(dir.path()).findings
}

#[track_caller]
fn assert_finding(found: &[Finding], severity: Severity, check: &str, words: &str) {
    let hit = found.iter().find(|f| f.check == check && f.what.contains(words));
    let hit = hit.unwrap_or_else(|| panic!("no {check} about {words:?} in {found:#?}"));
    assert_eq!(hit.severity, severity, "{hit:?}");
    assert!(!hit.place.is_empty() && !hit.remedy.is_empty(), "{hit:?}");
}

fn blob_file(dir: &Path) -> std::path::PathBuf {
    let folder = fs_err::read_dir(dir.join("blob")).expect("lists").next().expect("one");
    let file = fs_err::read_dir(folder.expect("entry").path()).expect("lists").next();
    file.expect("one").expect("entry").path()
}

#[test]
fn healthy_store_has_no_findings() {
    let dir = tempfile::tempdir().expect("temp dir");
    fill_store(dir.path());
    let seen = examine(dir.path());
    assert_eq!(seen.findings, []);
    assert!(seen.is_sound() && seen.events > 8, "{seen:?}");
    assert!(seen.sizes.iter().any(|(name, bytes)| name == "turnstone.db" && *bytes > 4096));
    assert!(seen.sizes.iter().any(|(name, bytes)| name == "blob/" && *bytes == 350_000));
    let store = open(dir.path());
    assert_eq!(examine(dir.path()).findings, []);
    drop(store);
    assert!(seen.checks.len() > 10, "{:?}", seen.checks);
}

#[test]
fn missing_store_is_not_an_error() {
    let dir = tempfile::tempdir().expect("temp dir");
    let seen = examine(&dir.path().join("nowhere"));
    assert!(seen.is_sound(), "{seen:?}");
    assert!(!dir.path().join("nowhere").exists(), "the doctor makes nothing");
}

#[test]
fn doctor_finds_changed_event() {
    let sql = "UPDATE event SET payload = replace(payload, 'ses_b', 'ses_c') WHERE session =
                 (SELECT num FROM session WHERE id = 'ses_b') AND seq = 1";
    assert_finding(&findings_after(sql), Severity::Error, "events", "check sum");
    assert_finding(
        &findings_after("UPDATE event SET time = time + 1"),
        Severity::Error,
        "events",
        "check sum",
    );
    assert_finding(&findings_after("DELETE FROM actor"), Severity::Error, "events", "actor");
}

#[test]
fn doctor_finds_missing_event() {
    let sql = "DELETE FROM event WHERE session = (SELECT num FROM session WHERE id = 'ses_a')
                 AND seq = 3";
    let found = findings_after(sql);
    assert_finding(&found, Severity::Error, "sequences", "does not follow");
    assert_finding(&found, Severity::Error, "references", "refers to an event");
    let last = "UPDATE stream SET seq = seq + 1";
    assert_finding(&findings_after(last), Severity::Error, "sequences", "stands at");
    let stray = "DELETE FROM stream WHERE id = 'ses_b'";
    assert_finding(&findings_after(stray), Severity::Error, "sequences", "no session");
}

#[test]
fn doctor_accepts_stub_spans() {
    let stub = "UPDATE event SET payload = NULL, refs = NULL, sum = NULL, span = 2
                  WHERE session = (SELECT num FROM session WHERE id = 'ses_a') AND seq = 4;
                DELETE FROM event
                  WHERE session = (SELECT num FROM session WHERE id = 'ses_a') AND seq = 3;
                DELETE FROM part WHERE id IN ('prt_in', 'prt_file');
                DELETE FROM blob_use;
                DELETE FROM blob;";
    let found = findings_after(stub);
    assert!(found.iter().all(|f| f.check == "files"), "{found:#?}");
}

#[test]
fn doctor_finds_damaged_blobs() {
    let changed = "UPDATE blob SET data = x'00' WHERE data IS NOT NULL";
    assert_finding(&findings_after(changed), Severity::Error, "values", "does not match its hash");
    let gone = findings_after("DELETE FROM blob WHERE data IS NOT NULL");
    assert_finding(&gone, Severity::Error, "events", "missing");
    assert_finding(
        &findings_after("DELETE FROM blob_use"),
        Severity::Warning,
        "values",
        "no event",
    );

    let dir = tempfile::tempdir().expect("temp dir");
    fill_store(dir.path());
    let file = blob_file(dir.path());
    let mut bytes = fs_err::read(&file).expect("read");
    bytes[17] ^= 1;
    fs_err::write(&file, bytes).expect("written");
    assert_finding(&examine(dir.path()).findings, Severity::Error, "values", "does not match");
    fs_err::remove_file(&file).expect("removed");
    assert_finding(&examine(dir.path()).findings, Severity::Error, "values", "damaged");
}

#[test]
fn doctor_finds_damaged_text() {
    let changed = "UPDATE chunk SET text = 'Streamed text', sum = NULL";
    assert_finding(&findings_after(changed), Severity::Error, "texts", "sealed");
    let summed = "UPDATE chunk SET text = 'Streamed text'";
    assert_finding(&findings_after(summed), Severity::Error, "texts", "check sum");
    assert_finding(&findings_after("DELETE FROM chunk"), Severity::Error, "texts", "shorter");
    let moved = "UPDATE chunk SET start = 1, sum = NULL";
    assert_finding(&findings_after(moved), Severity::Error, "texts", "begins at");
}

#[test]
fn doctor_finds_wrong_projections_and_rebuild_fixes_them() {
    let dir = tempfile::tempdir().expect("temp dir");
    fill_store(dir.path());
    raw(dir.path()).execute_batch("UPDATE session SET title = 'x'").expect("changed");
    assert_finding(&examine(dir.path()).findings, Severity::Error, "projections", "title=x");
    let mut store = open(dir.path());
    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilt").0;
    assert_eq!(examine(dir.path()).findings, []);
    drop(store);
    let orphan = "PRAGMA foreign_keys = OFF; DELETE FROM message WHERE id = 'msg_a'";
    assert_finding(&findings_after(orphan), Severity::Error, "references", "refers to a message");
}

#[test]
fn doctor_grades_unusual_state_by_severity() {
    let slow = "INSERT INTO consumer VALUES ('hub', 1, 1, 1)";
    assert_finding(&findings_after(slow), Severity::Note, "consumers", "starts again");
    let ahead = "INSERT INTO consumer VALUES ('hub', 1000, 1, 0)";
    assert_finding(&findings_after(ahead), Severity::Error, "consumers", "past the end");
    let cut = "INSERT INTO note VALUES ('rebuild', '{\"step\":\"clear\",\"table\":0}')";
    assert_finding(&findings_after(cut), Severity::Warning, "projections", "rebuild");
    assert_finding(&findings_after("DROP INDEX part_open"), Severity::Error, "schema", "missing");
    assert_finding(
        &findings_after("CREATE TABLE mine (a)"),
        Severity::Warning,
        "schema",
        "not part",
    );
    assert_finding(&findings_after("PRAGMA user_version = 1"), Severity::Note, "version", "older");
}

#[test]
fn doctor_finds_leftovers_of_dead_processes() {
    let dir = tempfile::tempdir().expect("temp dir");
    fill_store(dir.path());
    fs_err::write(dir.path().join("lock/owner-0000"), "1").expect("written");
    fs_err::create_dir_all(dir.path().join("blob/zz")).expect("made");
    fs_err::write(dir.path().join("blob/zz/.new-1"), "1").expect("written");
    fs_err::write(dir.path().join("blob/zz/orphan"), "1").expect("written");
    fs_err::write(dir.path().join("lock/poisoned"), "EIO").expect("written");
    let bits = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs_err::set_permissions(dir.path().join("turnstone.db"), bits).expect("set");
    let found = examine(dir.path()).findings;
    assert_finding(&found, Severity::Note, "place", "owner file");
    assert_finding(&found, Severity::Note, "place", "not written to its end");
    assert_finding(&found, Severity::Note, "files", "no stored value");
    assert_finding(&found, Severity::Warning, "file", "failed");
    assert_finding(&found, Severity::Warning, "place", "others may read");
    assert!(dir.path().join("lock/owner-0000").exists(), "nothing is removed");
}

#[test]
fn dead_turn_is_reported_and_ended_by_next_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let lease =
        store.leases().acquire(&ctx(), &sid("ses_a"), LeaseTakeoverPolicy::IfDead).expect("lease");
    let id: turnstone_core::id::TurnId = "trn_1".parse().expect("id");
    let new = NewTurn { id: id.clone(), message: user("ses_a", "msg_a", 1), parts: vec![] };
    store
        .write(&ctx().with_lease(&lease), move |tx| {
            tx.turns().begin(&new)?;
            tx.turns().transition(&sid("ses_a"), &id, &TurnEvent::Started)
        })
        .wait()
        .expect("begun");
    assert_eq!(examine(dir.path()).findings, [], "it runs");
    drop(store);
    assert_finding(&examine(dir.path()).findings, Severity::Warning, "turns", "trn_1");
    drop(Store::open(&Options::new(DataLayout::new(dir.path()), NOW)).expect("opens"));
    assert_eq!(examine(dir.path()).findings, []);
}

#[test]
fn excess_findings_are_counted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        (0..60)
            .try_for_each(|n| tx.messages().put(&user("ses_a", &format!("msg_{n}"), n)).map(drop))
    })
    .expect("written");
    drop(store);
    raw(dir.path()).execute_batch("UPDATE event SET time = 0").expect("damaged");
    let found = examine(dir.path()).findings;
    assert_finding(&found, Severity::Error, "events", "and 42 more");
}
