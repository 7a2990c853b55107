//! The doctor: finds each kind of damage, names the remedy, and changes nothing.

mod support;

use std::path::Path;

use serde_json::json;
use support::{NOW, ctx, open, part, pid, raw, sid, text, user, with_sessions, write};
use turnstone_core::turn::TurnEvent;
use turnstone_store::{
    Diagnosis, Finding, Layout, NewTurn, Options, Severity, Store, Takeover, doctor,
};

fn examine(dir: &Path) -> Diagnosis {
    doctor(&Layout::new(dir), NOW)
}

/// A store with something of everything, closed.
fn filled(dir: &Path) {
    let store = with_sessions(dir, &["ses_a", "ses_b"]);
    write(&store, |tx| {
        tx.put_message(&user("ses_a", "msg_a", 1))?;
        tx.put_part(&text("ses_a", "msg_a", "prt_in", &"inside ".repeat(1000)))?;
        tx.put_part(&text("ses_a", "msg_a", "prt_file", &"a file ".repeat(50_000)))?;
        let live = json!({"type": "text", "text": "", "time": {"start": 1}});
        tx.put_part(&part("ses_a", "msg_a", "prt_live", live))?;
        tx.append_text(&sid("ses_a"), &pid("prt_live"), "streamed text")?;
        let sealed =
            json!({"type": "text", "text": "streamed text", "time": {"start": 1, "end": 2}});
        tx.put_part(&part("ses_a", "msg_a", "prt_live", sealed))?;
        tx.put_message(&user("ses_b", "msg_b", 1))
    })
    .expect("written");
}

/// What the doctor says after `sql` was run on a sound store.
fn after(sql: &str) -> Vec<Finding> {
    let dir = tempfile::tempdir().expect("temp dir");
    filled(dir.path());
    raw(dir.path()).execute_batch(sql).expect("damaged");
    examine(dir.path()).findings
}

#[track_caller]
fn finds(found: &[Finding], severity: Severity, check: &str, words: &str) {
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
fn a_sound_store_has_no_findings_open_or_closed() {
    let dir = tempfile::tempdir().expect("temp dir");
    filled(dir.path());
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
fn nothing_there_is_not_an_error() {
    let dir = tempfile::tempdir().expect("temp dir");
    let seen = examine(&dir.path().join("nowhere"));
    assert!(seen.is_sound(), "{seen:?}");
    assert!(!dir.path().join("nowhere").exists(), "the doctor makes nothing");
}

#[test]
fn an_event_that_was_changed_is_found() {
    let sql = "UPDATE event SET payload = replace(payload, 'ses_b', 'ses_c') WHERE session =
                 (SELECT num FROM session WHERE id = 'ses_b') AND seq = 1";
    finds(&after(sql), Severity::Error, "events", "check sum");
    finds(&after("UPDATE event SET time = time + 1"), Severity::Error, "events", "check sum");
    finds(&after("DELETE FROM actor"), Severity::Error, "events", "actor");
}

#[test]
fn an_event_that_is_missing_is_found() {
    let sql = "DELETE FROM event WHERE session = (SELECT num FROM session WHERE id = 'ses_a')
                 AND seq = 3";
    let found = after(sql);
    finds(&found, Severity::Error, "sequences", "does not follow");
    finds(&found, Severity::Error, "references", "refers to an event");
    let last = "UPDATE stream SET seq = seq + 1";
    finds(&after(last), Severity::Error, "sequences", "stands at");
    let stray = "DELETE FROM stream WHERE id = 'ses_b'";
    finds(&after(stray), Severity::Error, "sequences", "no session");
}

#[test]
fn a_stub_stands_for_the_numbers_of_its_span() {
    let stub = "UPDATE event SET payload = NULL, refs = NULL, sum = NULL, span = 2
                  WHERE session = (SELECT num FROM session WHERE id = 'ses_a') AND seq = 4;
                DELETE FROM event
                  WHERE session = (SELECT num FROM session WHERE id = 'ses_a') AND seq = 3;
                DELETE FROM part WHERE id IN ('prt_in', 'prt_file');
                DELETE FROM blob_use;
                DELETE FROM blob;";
    let found = after(stub);
    assert!(found.iter().all(|f| f.check == "files"), "{found:#?}");
}

#[test]
fn values_that_are_not_what_was_stored_are_found() {
    let changed = "UPDATE blob SET data = x'00' WHERE data IS NOT NULL";
    finds(&after(changed), Severity::Error, "values", "does not match its hash");
    let gone = after("DELETE FROM blob WHERE data IS NOT NULL");
    finds(&gone, Severity::Error, "events", "missing");
    finds(&after("DELETE FROM blob_use"), Severity::Warning, "values", "no event");

    let dir = tempfile::tempdir().expect("temp dir");
    filled(dir.path());
    let file = blob_file(dir.path());
    let mut bytes = fs_err::read(&file).expect("read");
    bytes[17] ^= 1;
    fs_err::write(&file, bytes).expect("written");
    finds(&examine(dir.path()).findings, Severity::Error, "values", "does not match");
    fs_err::remove_file(&file).expect("removed");
    finds(&examine(dir.path()).findings, Severity::Error, "values", "damaged");
}

#[test]
fn text_that_is_not_what_was_sealed_is_found() {
    let changed = "UPDATE chunk SET text = 'Streamed text', sum = NULL";
    finds(&after(changed), Severity::Error, "texts", "sealed");
    let summed = "UPDATE chunk SET text = 'Streamed text'";
    finds(&after(summed), Severity::Error, "texts", "check sum");
    finds(&after("DELETE FROM chunk"), Severity::Error, "texts", "shorter");
    let moved = "UPDATE chunk SET start = 1, sum = NULL";
    finds(&after(moved), Severity::Error, "texts", "begins at");
}

#[test]
fn projections_that_are_not_what_the_log_says_are_found_and_rebuilt() {
    let dir = tempfile::tempdir().expect("temp dir");
    filled(dir.path());
    raw(dir.path()).execute_batch("UPDATE session SET title = 'x'").expect("changed");
    finds(&examine(dir.path()).findings, Severity::Error, "projections", "title=x");
    let mut store = open(dir.path());
    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilt").0;
    assert_eq!(examine(dir.path()).findings, []);
    drop(store);
    let orphan = "PRAGMA foreign_keys = OFF; DELETE FROM message WHERE id = 'msg_a'";
    finds(&after(orphan), Severity::Error, "references", "refers to a message");
}

#[test]
fn what_is_unusual_is_a_note_or_a_warning() {
    let slow = "INSERT INTO consumer VALUES ('hub', 1, 1, 1)";
    finds(&after(slow), Severity::Note, "consumers", "begins anew");
    let ahead = "INSERT INTO consumer VALUES ('hub', 1000, 1, 0)";
    finds(&after(ahead), Severity::Error, "consumers", "past the end");
    let cut = "INSERT INTO note VALUES ('rebuild', '{\"step\":\"clear\",\"table\":0}')";
    finds(&after(cut), Severity::Warning, "projections", "rebuild");
    finds(&after("DROP INDEX part_open"), Severity::Error, "schema", "missing");
    finds(&after("CREATE TABLE mine (a)"), Severity::Warning, "schema", "not part");
    finds(&after("PRAGMA user_version = 1"), Severity::Note, "version", "older");
}

#[test]
fn leftovers_of_dead_processes_are_found() {
    let dir = tempfile::tempdir().expect("temp dir");
    filled(dir.path());
    fs_err::write(dir.path().join("lock/owner-0000"), "1").expect("written");
    fs_err::create_dir_all(dir.path().join("blob/zz")).expect("made");
    fs_err::write(dir.path().join("blob/zz/.new-1"), "1").expect("written");
    fs_err::write(dir.path().join("blob/zz/orphan"), "1").expect("written");
    fs_err::write(dir.path().join("lock/poisoned"), "EIO").expect("written");
    let bits = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs_err::set_permissions(dir.path().join("turnstone.db"), bits).expect("set");
    let found = examine(dir.path()).findings;
    finds(&found, Severity::Note, "place", "owner file");
    finds(&found, Severity::Note, "place", "not written to its end");
    finds(&found, Severity::Note, "files", "no stored value");
    finds(&found, Severity::Warning, "file", "failed");
    finds(&found, Severity::Warning, "place", "others may read");
    assert!(dir.path().join("lock/owner-0000").exists(), "nothing is removed");
}

#[test]
fn a_turn_of_a_dead_process_is_found_and_ended_by_the_next_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let lease = store.lease(&ctx(), &sid("ses_a"), Takeover::IfDead).expect("lease");
    let id: turnstone_core::id::TurnId = "trn_1".parse().expect("id");
    let new = NewTurn { id: id.clone(), message: user("ses_a", "msg_a", 1), parts: vec![] };
    store
        .write(&ctx().leased(&lease), move |tx| {
            tx.begin_turn(&new)?;
            tx.move_turn(&sid("ses_a"), &id, &TurnEvent::Started)
        })
        .wait()
        .expect("begun");
    assert_eq!(examine(dir.path()).findings, [], "it runs");
    drop(store);
    finds(&examine(dir.path()).findings, Severity::Warning, "turns", "trn_1");
    drop(Store::open(&Options::new(Layout::new(dir.path()), NOW)).expect("opens"));
    assert_eq!(examine(dir.path()).findings, []);
}

#[test]
fn many_findings_of_a_kind_are_counted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        (0..60).try_for_each(|n| tx.put_message(&user("ses_a", &format!("msg_{n}"), n)).map(drop))
    })
    .expect("written");
    drop(store);
    raw(dir.path()).execute_batch("UPDATE event SET time = 0").expect("damaged");
    let found = examine(dir.path()).findings;
    finds(&found, Severity::Error, "events", "and 42 more");
}
