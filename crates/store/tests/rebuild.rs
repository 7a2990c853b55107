//! Projections are an index of the log: thrown away and made again, they are the same.

mod random_commands;
mod support;

use proptest::prelude::*;
use random_commands::{COMMANDS, Command, run_commands};
use support::{ctx, log, open, projections, raw, session, sid, text, user, with_sessions, write};
use turnstone_core::time::SessionSeq;
use turnstone_store::{RebuildProgress, StoreError};

fn commands() -> impl Strategy<Value = Vec<Command>> {
    proptest::collection::vec((0..COMMANDS, 0..10_000_u16, 0..10_000_u16), 1..160)
}

/// Enough to begin with, so that the random part meets something.
fn setup_commands() -> Vec<Command> {
    let mut list = vec![(0, 0, 3), (0, 1, 1)];
    for session in 0..3 {
        list.push((1, session, 1));
        list.extend([(3, session, 0), (4, session, 1), (6, session, 0), (33, session + 27, 2)]);
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rebuilt_projections_equal_the_originals(commands in commands()) {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = open(dir.path());
        run_commands(&store, &setup_commands());
        run_commands(&store, &commands);
        let before = projections(dir.path());
        let events = log(&store);
        prop_assert_eq!(store.maintenance().verify_projections().expect("verifies"), vec![]);

        let (store, rebuilt) = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds");

        prop_assert_eq!(rebuilt.events, events.len() as u64);
        prop_assert_eq!(projections(dir.path()), before);
        prop_assert_eq!(log(&store), events);
        prop_assert_eq!(store.maintenance().verify_projections().expect("verifies"), vec![]);
    }
}

#[test]
fn rebuild_fixes_changed_projection() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_a", 1))).expect("written");
    let before = projections(dir.path());
    raw(dir.path())
        .execute_batch(
            "UPDATE session SET title = 'wrong', tokens_input = 7 WHERE id = 'ses_a';
             DELETE FROM message;
             INSERT INTO todo (session, image) SELECT num, image FROM session WHERE id = 'ses_b';",
        )
        .expect("changed");

    let found = store.maintenance().verify_projections().expect("verifies");

    let tables: Vec<_> = found.iter().map(|m| m.table).collect();
    assert_eq!(tables, ["todo", "message", "session"]);
    assert!(found[0].rebuilt.is_none() && found[1].stored.is_none());
    assert!(found[2].stored.as_deref().is_some_and(|row| row.contains("title=wrong")));
    assert!(found[2].rebuilt.as_deref().is_some_and(|row| row.contains("title=T")));
    store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds");
    assert_eq!(projections(dir.path()), before);
}

#[test]
fn rebuild_keeps_deleted_session_deleted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_a", 1))).expect("written");
    raw(dir.path())
        .execute_batch(
            "UPDATE stream SET deleted = 1 WHERE id = 'ses_a';
             UPDATE session SET hidden = 1 WHERE id = 'ses_a';",
        )
        .expect("changed");
    assert_eq!(
        store.maintenance().verify_projections().expect("verifies"),
        [],
        "half purged is no error"
    );

    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;

    let left = store.read(&ctx(), |r| r.sessions().find(&sid("ses_a"))).expect("reads");
    assert_eq!(left, None);
    assert!(store.read(&ctx(), |r| r.sessions().get(&sid("ses_b"))).is_ok());
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
}

#[test]
fn a_rebuild_takes_short_transactions() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    for batch in 0..20 {
        write(&store, move |tx| {
            (0..50).try_for_each(|n| {
                let m = format!("msg_{batch}_{n}");
                tx.messages().put(&user("ses_a", &m, n))?;
                tx.messages()
                    .put_part(&text("ses_a", &m, &format!("prt_{batch}_{n}"), "x"))
                    .map(drop)
            })
        })
        .expect("written");
    }
    let before = projections(dir.path());
    let mut steps = Vec::new();

    let (_, done) = store.rebuild(&ctx(), &mut |step| steps.push(step)).expect("rebuilds");

    assert_eq!(done.events, 2002);
    assert!(done.commits > 2002 / 250, "{done:?}");
    assert_eq!(steps.first(), Some(&RebuildProgress::DryRun));
    assert_eq!(steps.last(), Some(&RebuildProgress::Applied(2002)));
    assert_eq!(projections(dir.path()), before);
}

#[test]
fn a_rebuild_is_refused_while_another_process_has_the_store_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let other = open(dir.path());
    let before = projections(dir.path());

    let refused = store.rebuild(&ctx(), &mut |_| {}).err().expect("refused");

    let StoreError::InUse { by, .. } = &refused else { panic!("{refused}") };
    let name = other.leases().owner_id().expect("owner").as_str().to_owned();
    assert!(by.len() == 1 && by[0].contains(&name), "{by:?}");
    assert!(by[0].contains(&std::process::id().to_string()), "{by:?}");
    assert_eq!(projections(dir.path()), before);
    other.rebuild(&ctx(), &mut |_| {}).expect("alone");
}

#[test]
fn unreplayable_log_leaves_projections_unchanged() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    raw(dir.path())
        .execute("UPDATE event SET payload = '{' WHERE session IS NOT NULL", [])
        .expect("damaged");
    let before = projections(dir.path());

    store.rebuild(&ctx(), &mut |_| {}).err().expect("refused");

    assert_eq!(projections(dir.path()), before);
    open(dir.path());
}

/// The mark a rebuild leaves when it is killed while it clears, and while it replays.
#[test]
fn an_interrupted_rebuild_is_finished_by_the_next_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_a", "hello"))
    })
    .expect("written");
    let before = projections(dir.path());
    drop(store);
    for half_done in [
        "INSERT INTO note VALUES ('rebuild', '{\"step\":\"clear\",\"table\":8}');
         DELETE FROM part;",
        "INSERT INTO note VALUES ('rebuild',
           '{\"step\":\"replay\",\"place\":{\"pass\":2,\"cursor\":0}}');
         DELETE FROM message;",
    ] {
        raw(dir.path()).execute_batch(half_done).expect("cut off");

        let store = open(dir.path());

        assert_eq!(projections(dir.path()), before);
        assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
        let seq = write(&store, |tx| tx.sessions().put(&session("ses_a"))).map(drop);
        assert!(seq.is_ok());
    }
}

#[test]
fn open_waits_for_running_rebuild() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let before = projections(dir.path());
    let path = dir.path().to_owned();
    let mut other = None;
    store
        .rebuild(&ctx(), &mut |step| {
            if step == RebuildProgress::Clearing && other.is_none() {
                let path = path.clone();
                other = Some(std::thread::spawn(move || {
                    let store = open(&path);
                    store.read(&ctx(), |r| r.sessions().seq(&sid("ses_a"))).expect("reads")
                }));
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        })
        .expect("rebuilds");
    let seen = other.expect("started").join().expect("joins");
    assert_eq!(seen, SessionSeq(1));
    assert_eq!(projections(dir.path()), before);
}
