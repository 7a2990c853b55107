//! The log resolved says the same whenever it is read (R25).

mod support;

use serde_json::json;
use support::{assistant, ctx, mid, open, part, pid, project, session, sid, text, tokens, user};
use turnstone_core::time::LogCursor;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    EndTurn, FeedBody, FeedCache, FeedEvent, LeaseTakeoverPolicy, NewTurn, Store, SyncBody, Tx,
};

fn feed(store: &Store, after: LogCursor, limit: usize, memo: &mut FeedCache) -> Vec<FeedEvent> {
    store.read(&ctx(), |r| r.feed().after(after, limit, memo)).expect("read").events
}

type FeedStep = Box<dyn Fn(&Tx<'_>) -> turnstone_store::Result<()> + Send>;

/// What is done in each step; each is a transaction of its own.
fn steps() -> Vec<FeedStep> {
    let step = |id: &str, message: &str, n: i64| {
        part(
            "ses_a",
            message,
            id,
            json!({"type": "step-finish", "reason": "stop", "cost": 0.5, "tokens": tokens(n)}),
        )
    };
    let retitle = |title: &'static str| {
        Box::new(move |tx: &Tx<'_>| {
            tx.sessions()
                .update(&sid("ses_a"), |it| {
                    it.title = title.to_owned();
                    Ok(())
                })
                .map(drop)
        })
    };
    let (one, again, two) =
        (step("prt_1", "msg_1", 10), step("prt_1", "msg_1", 20), step("prt_2", "msg_2", 5));
    vec![
        Box::new(|tx| tx.projects().put(&project("p1")).map(drop)),
        Box::new(|tx| tx.sessions().create(&session("ses_a")).map(drop)),
        Box::new(|tx| {
            tx.messages().put(&assistant("ses_a", "msg_1", 1))?;
            tx.messages().put(&assistant("ses_a", "msg_2", 2)).map(drop)
        }),
        Box::new(move |tx| tx.messages().put_part(&one).map(drop)),
        retitle("one step"),
        Box::new(move |tx| tx.messages().put_part(&again).map(drop)),
        Box::new(move |tx| tx.messages().put_part(&two).map(drop)),
        retitle("two steps"),
        Box::new(|tx| tx.messages().put_part(&text("ses_a", "msg_1", "prt_t", "")).map(drop)),
        Box::new(|tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), "first ").map(drop)),
        Box::new(|tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), "second").map(drop)),
        Box::new(|tx| {
            tx.messages().put_part(&text("ses_a", "msg_1", "prt_t", "another text")).map(drop)
        }),
        Box::new(|tx| tx.messages().remove_part(&sid("ses_a"), &pid("prt_2"))),
        retitle("one is gone"),
        Box::new(|tx| tx.messages().remove(&sid("ses_a"), &mid("msg_1"))),
        retitle("all are gone"),
    ]
}

#[test]
fn feed_is_the_same_live_and_later_at_any_page_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let (mut live, mut memo) = (Vec::new(), FeedCache::default());
    for step in steps() {
        store.write(&ctx(), step).wait().expect("written");
        let after = live.last().map_or(LogCursor(0), |event: &FeedEvent| event.cursor);
        live.extend(feed(&store, after, 100, &mut memo));
    }
    assert_eq!(feed(&store, LogCursor(0), 100, &mut FeedCache::default()), live);
    for (nth, event) in live.iter().enumerate() {
        // With nothing remembered, each page has to count backwards from the end.
        let page = feed(&store, LogCursor(event.cursor.0 - 1), 1, &mut FeedCache::default());
        assert_eq!(page, std::slice::from_ref(event), "event {nth}");
    }
    let sums: Vec<(String, i64, i64)> = live
        .iter()
        .filter_map(|event| {
            let FeedBody::Session(then) = &event.body else { return None };
            Some((then.session.title.clone(), then.usage.input, then.usage.cost))
        })
        .collect();
    let half = 500_000_000_000;
    let expected = [
        ("T", 0, 0),
        ("one step", 10, half),
        ("two steps", 25, 2 * half),
        ("one is gone", 20, half),
        ("all are gone", 0, 0),
    ];
    assert_eq!(sums, expected.map(|(title, input, cost)| (title.to_owned(), input, cost)));
}

#[test]
fn feed_parts_have_their_text_at_that_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    for step in steps() {
        store.write(&ctx(), step).wait().expect("written");
    }
    let all = feed(&store, LogCursor(0), 100, &mut FeedCache::default());
    let deltas: Vec<&str> = all
        .iter()
        .filter_map(|event| {
            let FeedBody::PartDelta { text, part, .. } = &event.body else { return None };
            (*part == pid("prt_t")).then_some(text.as_str())
        })
        .collect();
    assert_eq!(deltas, ["first ", "second"]);
    assert!(all.iter().all(|event| !matches!(event.body, FeedBody::Stub { .. })));
}

#[test]
fn feed_resolves_turn_and_abort_events() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    store.write(&ctx(), |tx| tx.projects().put(&project("p1")).map(drop)).wait().expect("written");
    store
        .write(&ctx(), |tx| tx.sessions().create(&session("ses_a")).map(drop))
        .wait()
        .expect("made");
    let lease = store
        .leases()
        .acquire(&ctx(), &sid("ses_a"), LeaseTakeoverPolicy::IfDead)
        .expect("a lease");
    let turn: turnstone_core::id::TurnId = "trn_1".parse().expect("an id");
    let new = NewTurn { id: turn.clone(), message: user("ses_a", "msg_1", 1), parts: Vec::new() };
    let named = turn.clone();
    let begin = move |tx: &Tx<'_>| {
        tx.turns().begin(&new)?;
        tx.turns().transition(&sid("ses_a"), &named, &TurnEvent::Started)
    };
    store.write(&ctx().with_lease(&lease), begin).wait().expect("begun");
    store.write(&ctx(), |tx| tx.turns().request_abort(&sid("ses_a"))).wait().expect("asked");
    let end = EndTurn {
        session: sid("ses_a"),
        turn: turn.clone(),
        outcome: TurnOutcome::Aborted,
        error: None,
    };
    store.write(&ctx().with_lease(&lease), move |tx| tx.turns().end(&end)).wait().expect("ended");
    let all = feed(&store, LogCursor(0), 100, &mut FeedCache::default());
    let ends: Vec<_> = all
        .iter()
        .filter_map(|event| {
            let FeedBody::Turn { event, error, .. } = &event.body else { return None };
            Some((*event, error.as_ref().map(|it| it.data["message"].clone())))
        })
        .collect();
    let aborted = TurnEvent::Ended { outcome: TurnOutcome::Aborted };
    assert_eq!(ends, [(TurnEvent::Started, None), (aborted, Some(json!("Aborted")))]);
}

#[test]
fn feed_of_deleted_session_keeps_its_location() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    for step in steps() {
        store.write(&ctx(), step).wait().expect("written");
    }
    store.delete_session(&ctx(), &sid("ses_a")).expect("deleted");
    let last = |store: &Store| {
        feed(store, LogCursor(0), 100, &mut FeedCache::default()).pop().expect("an event")
    };
    let entry = last(&store);
    assert!(
        matches!(&entry.body, FeedBody::SessionDeleted(Some(then)) if then.session.title == "all are gone")
    );
    while !store.maintenance().purge_deleted(&ctx(), 100).expect("purged") {}
    let entry = last(&store);
    assert_eq!(entry.body, FeedBody::SessionDeleted(None));
    let place = entry.session.and_then(|session| session.location).expect("a place");
    assert_eq!((place.0.as_str(), place.1.as_str()), ("/home/ada/p", "p1"));
    let all = feed(&store, LogCursor(0), 100, &mut FeedCache::default());
    let missed = all.iter().any(|it| it.body == FeedBody::Stub { is_deleted: false });
    assert!(!missed, "{all:?}");
}

/// Proves R25.
#[test]
fn replica_keeps_origin_numbers_for_no_op_events() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    store.write(&ctx(), |tx| tx.projects().put(&project("p1")).map(drop)).wait().expect("written");
    let image = || SyncBody::Session(Box::new(session("ses_a")));
    let message = || SyncBody::Message(Box::new(user("ses_a", "msg_1", 1)));
    let said = || SyncBody::Part(Box::new(text("ses_a", "msg_1", "prt_1", &"long ".repeat(4000))));
    let events = [image(), image(), message(), message(), said(), said(), image()];
    for (number, body) in events.into_iter().enumerate() {
        let put = move |tx: &Tx<'_>| tx.sync().replicate(&sid("ses_a"), number as i64, &body);
        store.write(&ctx(), put).wait().expect("taken over");
    }
    let read = store
        .read(&ctx(), |r| r.feed().sync_after(&sid("ses_a"), -1, 100, &mut FeedCache::default()));
    let numbers: Vec<_> =
        read.expect("read").iter().map(|it| it.session.as_ref().and_then(|s| s.sync_seq)).collect();
    assert_eq!(numbers, (0..7).map(Some).collect::<Vec<_>>());
    let gap =
        store.write(&ctx(), move |tx| tx.sync().replicate(&sid("ses_a"), 9, &message())).wait();
    assert!(gap.is_err());
}
