//! Maintenance of the database runs by itself: at the end of commands when it is due, and in an idle server (R41).

use std::path::PathBuf;
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_store::{Actor, Context};

use crate::fixture::{CliFixture, START_MILLIS};
use crate::serve_shell::TestServer;

fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("an actor"), EpochMillis(START_MILLIS))
}

fn session_id() -> SessionId {
    "ses_aaa1".parse().expect("an id")
}

/// Events that later ones replace; maintenance turns them into stubs.
fn rename_often(case: &CliFixture) {
    let store = case.open_store();
    for round in 0..30 {
        let rename = move |tx: &turnstone_store::Tx<'_>| {
            let rename = |session: &mut turnstone_core::model::Session| {
                session.title = format!("title {round}");
                Ok(())
            };
            tx.sessions().update(&session_id(), rename)
        };
        store.write(&ctx(), rename).wait().expect("renamed");
    }
}

fn stub_count(case: &CliFixture) -> usize {
    let store = case.open_store();
    let events = store.read(&ctx(), |r| r.log().after(LogCursor(0), 10_000)).expect("read").events;
    events.iter().filter(|event| event.is_stub()).count()
}

/// Where it is noted when maintenance last finished.
fn note_path(case: &CliFixture) -> PathBuf {
    case.data_dir().join("lock/maintained")
}

/// Proves R41.
#[test]
fn command_maintains_database_when_due_and_only_then() {
    let case = CliFixture::with_sessions();
    rename_often(&case);
    assert_eq!(stub_count(&case), 0);

    assert_eq!(case.run(&["session", "list"]).code, 0);

    assert!(stub_count(&case) > 20, "the fixture is older than a day, so it was due");
    let noted = fs_err::read_to_string(note_path(&case)).expect("noted");
    assert_eq!(case.run(&["session", "list"]).code, 0);
    assert_eq!(fs_err::read_to_string(note_path(&case)).expect("noted"), noted, "not due again");
}

fn keyed(key: &str, time: EpochMillis) -> Context {
    Context { now: time, ..ctx() }.with_idempotency_key(key.to_owned())
}

/// Stores the answer of a call that was made long ago, and of one that was made a moment ago.
#[expect(clippy::disallowed_methods, reason = "the program of a test lives in the present")]
fn store_answers(case: &CliFixture) -> EpochMillis {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = since_epoch.expect("after 1970").as_millis();
    let now = EpochMillis(i64::try_from(now).expect("a time"));
    let store = case.open_store();
    for (key, time) in [("old", EpochMillis(START_MILLIS)), ("new", now)] {
        let answer = "answer".to_owned();
        store.idempotency().store_answer(&keyed(key, time), answer).expect("stored");
    }
    now
}

fn is_answered(case: &CliFixture, key: &str, now: EpochMillis) -> bool {
    let found = case.open_store().idempotency().find(&keyed(key, now)).expect("read");
    found.answer.is_some()
}

/// Proves R41, R43.
#[test]
fn idempotency_keys_expire_by_themselves() {
    let case = CliFixture::with_sessions();
    let now = store_answers(&case);
    assert!(is_answered(&case, "old", now) && is_answered(&case, "new", now));

    assert_eq!(case.run(&["session", "list"]).code, 0);

    assert!(!is_answered(&case, "old", now), "a command has removed it");
    assert!(is_answered(&case, "new", now));

    let now = store_answers(&case);
    fs_err::remove_file(note_path(&case)).expect("removed");
    let served = TestServer::start(&case);
    while !note_path(&case).exists() {
        std::thread::sleep(Duration::from_millis(25));
    }
    served.kill();
    assert!(!is_answered(&case, "old", now), "an idle server has removed it");
    assert!(is_answered(&case, "new", now));
}

/// Proves R41.
#[test]
fn failed_maintenance_is_not_the_failure_of_the_command() {
    let case = CliFixture::with_sessions();
    fs_err::remove_file(note_path(&case)).expect("removed");
    fs_err::create_dir(note_path(&case)).expect("made");

    let ran = case.run(&["session", "list"]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains("maintenance"), "{ran:?}");
}

/// Proves R23.
#[test]
fn next_command_finishes_an_interrupted_deletion() {
    let case = CliFixture::with_sessions();
    let store = case.open_store();
    store.delete_session(&ctx(), &session_id()).expect("deleted");
    assert_eq!(store.maintenance().pending_deletions(&ctx()).expect("read").len(), 2);
    drop(store);

    assert_eq!(case.run(&["session", "list"]).code, 0);

    let store = case.open_store();
    assert_eq!(store.maintenance().pending_deletions(&ctx()).expect("read"), []);
}

/// Proves R23.
#[test]
fn interrupted_deletion_is_finished_even_if_maintenance_is_noted_as_done() {
    let case = CliFixture::with_sessions();
    assert_eq!(case.run(&["session", "list"]).code, 0);
    let noted = fs_err::read_to_string(note_path(&case)).expect("noted");
    let store = case.open_store();
    store.delete_session(&ctx(), &session_id()).expect("deleted");
    // As a command leaves it that runs within a minute of the deletion.
    fs_err::write(note_path(&case), noted).expect("noted");
    drop(store);

    assert_eq!(case.run(&["session", "list"]).code, 0);

    let store = case.open_store();
    assert_eq!(store.maintenance().pending_deletions(&ctx()).expect("read"), []);
}

/// Proves R41.
#[test]
fn idle_server_maintains_database() {
    let case = CliFixture::with_sessions();
    rename_often(&case);
    fs_err::remove_file(note_path(&case)).expect("removed");

    let served = TestServer::start(&case);
    while !note_path(&case).exists() {
        std::thread::sleep(Duration::from_millis(25));
    }

    served.kill();
    assert!(stub_count(&case) > 20);
}
