//! Deletion (R23): gone at once for readers, announced by tombstones, purged in small steps.

mod support;

use serde_json::json;
use support::*;
use turnstone_core::event::EventKind;
use turnstone_core::time::LogCursor;
use turnstone_store::{
    LeaseTakeoverPolicy, NewTurn, SessionFilter, ShareRecord, Store, StoreError,
};

fn child(id: &str, parent: &str) -> turnstone_core::model::Session {
    let mut child = session(id);
    child.parent = Some(sid(parent));
    child
}

/// A root with two children and a grandchild, and one unrelated session.
fn store_with_session_tree(dir: &std::path::Path) -> Store {
    let store = with_sessions(dir, &["ses_root", "ses_other"]);
    write(&store, |tx| {
        tx.sessions().create(&child("ses_c1", "ses_root"))?;
        tx.sessions().create(&child("ses_c2", "ses_root"))?;
        tx.sessions().create(&child("ses_g1", "ses_c1"))?;
        tx.messages().put(&user("ses_g1", "msg_g", 1))?;
        tx.messages().put_part(&text("ses_g1", "msg_g", "prt_g", "hello"))?;
        tx.messages().put(&user("ses_other", "msg_o", 1))?;
        tx.messages().put_part(&text("ses_other", "msg_o", "prt_o", "stays"))
    })
    .expect("made");
    store
}

fn purge(store: &Store) {
    while !store.maintenance().purge_deleted(&ctx(), 1).expect("purges") {}
}

#[test]
fn deleting_a_session_deletes_children_and_writes_tombstones() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = store_with_session_tree(dir.path());
    let before = store.read(&ctx(), |r| r.log().last_cursor()).expect("cursor");
    let commits = store.writer_stats().expect("stats").commits();
    let deleted = store.delete_session(&ctx(), &sid("ses_root")).expect("deleted");
    assert_eq!(deleted.sessions.len(), 4);
    assert!(store.writer_stats().expect("stats").commits() <= commits + 3);
    for id in ["ses_root", "ses_c1", "ses_c2", "ses_g1"] {
        assert!(
            store.read(&ctx(), |r| r.sessions().find(&sid(id))).expect("reads").is_none(),
            "{id}"
        );
        let again = write(&store, move |tx| tx.sessions().create(&session(id)));
        assert!(matches!(again, Err(StoreError::Deleted(_))), "an id is not used again");
    }
    let events = store.read(&ctx(), |r| r.log().after(before, 100)).expect("log").events;
    let gone: Vec<_> = events.iter().filter(|e| e.kind == EventKind::SessionDeleted).collect();
    assert_eq!(gone.len(), 4);
    assert!(
        gone.iter().all(|e| e.payload.as_ref().is_some_and(|p| p["directory"] == "/home/ada/p"))
    );
    let left = store
        .read(&ctx(), |r| r.sessions().list(&SessionFilter::default(), None, 10))
        .expect("list");
    assert_eq!(left.items.len(), 1);
}

#[test]
fn purge_leaves_only_the_tombstone() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = store_with_session_tree(dir.path());
    store.delete_session(&ctx(), &sid("ses_root")).expect("deleted");
    purge(&store);
    for event in
        log(&store).iter().filter(|e| e.session.as_ref().is_some_and(|s| s.as_str() != "ses_other"))
    {
        assert!(event.is_stub() || event.kind == EventKind::SessionDeleted, "{event:?}");
    }
    let conn = raw(dir.path());
    let count = |sql: &str| conn.query_row(sql, [], |r| r.get::<_, i64>(0)).expect("count");
    assert_eq!(count("SELECT count(*) FROM message"), 1);
    assert_eq!(count("SELECT count(*) FROM part"), 1);
    assert_eq!(count("SELECT count(*) FROM session"), 1);
    assert_eq!(count("SELECT count(*) FROM purge WHERE announced < 2"), 0);
    // Numbers still have no gap: the stub stands for all before the tombstone.
    let stream = store
        .read(&ctx(), |r| r.log().stream_after(&sid("ses_g1"), Default::default(), 10))
        .expect("stream");
    let spans: Vec<_> = stream.events.iter().map(|e| (e.seq.map(|s| s.0), e.span)).collect();
    assert_eq!(spans, [(Some(3), 3), (Some(4), 1)]);
    assert!(store.maintenance().verify_projections().expect("verifies").is_empty());
    assert_eq!(
        store
            .read(&ctx(), |r| r.messages().get_part(&sid("ses_other"), &pid("prt_o")))
            .expect("stays"),
        text("ses_other", "msg_o", "prt_o", "stays")
    );
}

#[test]
fn deleting_a_long_session_is_bounded_and_interruptible() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let tickets: Vec<_> = (0..300)
        .map(|n| {
            store.write(&ctx(), move |tx| {
                let message = format!("msg_{n}");
                tx.messages().put(&assistant("ses_a", &message, n))?;
                for p in 0..4 {
                    let output = format!("{n} {p} {}", "x".repeat(3000));
                    let body = json!({"type": "text", "text": output});
                    tx.messages().put_part(&part(
                        "ses_a",
                        &message,
                        &format!("prt_{n}p{p}"),
                        body,
                    ))?;
                }
                let id = pid(&format!("prt_{n}p0"));
                tx.messages().append_text(&sid("ses_a"), &id, "more").map(drop)
            })
        })
        .collect();
    tickets.into_iter().for_each(|t| t.wait().expect("written"));
    store.delete_session(&ctx(), &sid("ses_a")).expect("deleted");
    assert!(!store.maintenance().purge_deleted(&ctx(), 3).expect("some"), "not done yet");
    drop(store);
    let store = open(dir.path());
    purge(&store);
    assert!(store.writer_stats().expect("stats").most_rows() <= 500);
    let conn = raw(dir.path());
    for (what, sql) in [
        ("events", "SELECT count(*) FROM event WHERE session IS NOT NULL"),
        ("chunks", "SELECT count(*) FROM chunk"),
        ("uses", "SELECT count(*) FROM blob_use"),
        ("parts", "SELECT count(*) FROM part"),
    ] {
        let left: i64 = conn.query_row(sql, [], |r| r.get(0)).expect("count");
        assert_eq!(left, if what == "events" { 2 } else { 0 }, "{what}");
    }
}

#[test]
fn deleting_a_busy_session_aborts_its_turn_first() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let lease =
        store.leases().acquire(&ctx(), &sid("ses_a"), LeaseTakeoverPolicy::IfDead).expect("lease");
    let owned = ctx().with_lease(&lease);
    let new = NewTurn {
        id: "trn_1".parse().expect("id"),
        message: user("ses_a", "msg_u", 1),
        parts: vec![],
    };
    store.write(&owned, move |tx| tx.turns().begin(&new)).wait().expect("begins");
    store.delete_session(&ctx(), &sid("ses_a")).expect("deleted");
    let ended = log(&store).into_iter().find(|e| e.kind == EventKind::TurnEnded).expect("ended");
    assert_eq!(ended.payload.as_ref().map(|p| p["outcome"].clone()), Some(json!("aborted")));
    let late = store.write(&owned, |tx| tx.messages().put(&assistant("ses_a", "msg_a", 2))).wait();
    assert!(matches!(late, Err(StoreError::NoSession(_))), "{late:?}");
}

#[test]
fn large_session_tree_disappears_at_once() {
    // W30: never an error with half of the children gone.
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_root"]);
    for chunk in 0..6 {
        write(&store, move |tx| {
            (0..25).try_for_each(|n| {
                tx.sessions()
                    .create(&child(&format!("ses_k{}", chunk * 25 + n), "ses_root"))
                    .map(drop)
            })
        })
        .expect("made");
    }
    let deleted = store.delete_session(&ctx(), &sid("ses_root")).expect("deleted");
    assert_eq!(deleted.sessions.len(), 151);
    purge(&store);
    assert!(store.writer_stats().expect("stats").most_rows() <= 500);
    let tombstones =
        log(&store).into_iter().filter(|e| e.kind == EventKind::SessionDeleted).count();
    assert_eq!(tombstones, 151);
}

#[test]
fn deleting_unknown_session_is_an_error() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let events = log(&store).len();
    assert!(matches!(
        store.delete_session(&ctx(), &sid("ses_none")),
        Err(StoreError::NoSession(_))
    ));
    assert_eq!(log(&store).len(), events);
}

#[test]
fn shared_session_fills_outbox_and_hides_its_secret() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let share = ShareRecord {
        id: "sh1".into(),
        secret: "s3cr3t-value".into(),
        url: "https://x/share/sh1".into(),
    };
    let put = share.clone();
    write(&store, move |tx| tx.shares().put(&sid("ses_a"), &put)).expect("shared");
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_1", 1))).expect("written");
    let rows = store.read(&ctx(), |r| r.shares().outbox(&sid("ses_a"), 0, 10)).expect("outbox");
    assert_eq!(rows.len(), 2, "the share itself and the message");
    assert!(log(&store).iter().all(|e| !format!("{e:?}").contains("s3cr3t")));
    assert_eq!(store.read(&ctx(), |r| r.shares().find(&sid("ses_a"))).expect("share"), Some(share));
    let last = rows[1].0;
    write(&store, move |tx| tx.shares().acknowledge_outbox(&sid("ses_a"), last))
        .expect("acknowledged");
    assert!(
        store.read(&ctx(), |r| r.shares().outbox(&sid("ses_a"), 0, 10)).expect("outbox").is_empty()
    );
    write(&store, |tx| tx.shares().remove(&sid("ses_a"))).expect("unshared");
    assert_eq!(store.read(&ctx(), |r| r.shares().find(&sid("ses_a"))).expect("share"), None);
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_2", 1))).expect("written");
    let after = store.read(&ctx(), |r| r.shares().outbox(&sid("ses_a"), last, 10)).expect("outbox");
    assert_eq!(after.len(), 0, "nothing is sent for a session that is shared no longer");
    assert_eq!(
        store.read(&ctx(), |r| r.log().last_cursor()).expect("cursor"),
        LogCursor(log(&store).last().expect("event").cursor.0)
    );
}

/// Proves R23.
#[test]
fn words_of_deleted_session_leave_the_search_index() {
    const MARKER: &str = "xqdeleted7f3a91marker";
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    // Few of the documents are deleted: otherwise the usual merges would remove their words.
    for round in 0..12 {
        write(&store, move |tx| {
            let put = |session: &str, id: String, words: &str| {
                let message = format!("msg_{id}");
                tx.messages().put(&user(session, &message, round))?;
                tx.messages().put_part(&text(session, &message, &format!("prt_{id}"), words))
            };
            if round == 3 {
                put("ses_a", "a".to_owned(), MARKER)?;
            }
            for number in 0..5 {
                put("ses_b", format!("b{round}x{number}"), &format!("okapi {number} {round}"))?;
            }
            Ok(())
        })
        .expect("written");
        store.session_search().index_batches(&ctx(), usize::MAX).expect("indexed");
    }
    store.delete_session(&ctx(), &sid("ses_a")).expect("deleted");
    let pending = store.maintenance().pending_deletions(&ctx()).expect("reads");
    store.maintenance().purge_sessions(&ctx(), &pending).expect("purged");
    store.session_search().index_batches(&ctx(), usize::MAX).expect("indexed");
    let blocks_with_marker = || -> i64 {
        raw(dir.path())
            .query_row(
                "SELECT count(*) FROM search_data WHERE instr(block, CAST(?1 AS BLOB)) > 0",
                [MARKER],
                |row| row.get(0),
            )
            .expect("counts")
    };
    assert!(blocks_with_marker() > 0, "documents are only marked as deleted");

    store.maintenance().erase_traces(&ctx(), &pending).expect("erased");

    assert_eq!(blocks_with_marker(), 0);
    assert_eq!(store.maintenance().pending_deletions(&ctx()).expect("reads"), []);
    let query =
        turnstone_store::SearchQuery { limit: 100, ..turnstone_store::SearchQuery::new("okapi") };
    let found = store.session_search().query(&ctx(), &query).expect("found");
    assert_eq!(found.hits.len(), 60);
    assert!(store.writer_stats().expect("stats").most_rows() <= 500);
}
