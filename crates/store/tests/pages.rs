//! Order is that of the stream (W19, W20), and pages keep it (sessions.md 12.2).

mod support;

use serde_json::{Value, json};
use support::{assistant, ctx, mid, pid, raw, sid, text, user, with_sessions, write};
use turnstone_core::id::{IdClock, MessageId, PartId};
use turnstone_core::model::{ForkOrigin, Session};
use turnstone_core::time::{EpochMillis, SessionSeq};
use turnstone_core::wire::{ParseMode, message_info, parse_part, part_info, session_info};
use turnstone_store::{
    ListedSession, MessagePage, MessagePageJson, MessageWithParts, PartRenderer, SessionFilter,
    Store, StoreError,
};

fn pages(store: &Store, session: &str, limit: usize) -> Vec<MessagePage> {
    let mut pages = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = store
            .read(&ctx(), |r| r.messages().list(&sid(session), before.as_deref(), limit))
            .expect("a page");
        assert_json_page_matches(store, session, before.as_deref(), limit, &page);
        before.clone_from(&page.before);
        pages.push(page);
        if before.is_none() {
            return pages;
        }
    }
}

/// The page as text says the same as the page of values, in the same order of fields or not.
fn assert_json_page_matches(
    store: &Store,
    session: &str,
    before: Option<&str>,
    limit: usize,
    page: &MessagePage,
) {
    for plain in [true, false] {
        let view = PartRenderer { is_verbatim: &|_| plain, render: &part_info };
        let shown =
            store.read(&ctx(), |r| r.wire_json().list_messages(&sid(session), before, limit, view));
        assert_same_page(&shown.expect("a page"), page);
    }
}

fn assert_same_page(shown: &MessagePageJson, page: &MessagePage) {
    let values = page.items.iter().map(|item| {
        let parts: Vec<Value> = item.parts.iter().map(part_info).collect();
        json!({ "info": message_info(&item.message), "parts": parts })
    });
    let text: Value = serde_json::from_str(&shown.json).expect("JSON");
    assert_eq!(text, Value::Array(values.collect()));
    assert_eq!(shown.before, page.before);
}

fn all_messages(store: &Store, session: &str, limit: usize) -> Vec<MessageWithParts> {
    pages(store, session, limit).into_iter().rev().flat_map(|page| page.items).collect()
}

fn ids(items: &[MessageWithParts]) -> Vec<String> {
    items.iter().map(|item| item.message.id.to_string()).collect()
}

/// 2026-08-14 11:19:55.136Z, when the time field of ids wrapped.
const WRAP: i64 = 1_786_706_395_136;

#[test]
fn messages_keep_stream_order_across_id_wrap_and_clock_steps() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = with_sessions(dir.path(), &["ses_a"]);
    let mut ticker = IdClock::default();
    let moments = [WRAP - 5000, WRAP - 1, WRAP, WRAP + 1, WRAP - 60_000, WRAP + 10, WRAP - 1];
    let mut expected = Vec::new();
    for (n, at) in moments.into_iter().enumerate() {
        let mut random = [7; 14];
        random[0] = n as u8;
        let id = MessageId::mint(ticker.next_timestamp(EpochMillis(at)), random);
        let parts: Vec<PartId> = [at + 3, at - 3, WRAP]
            .iter()
            .map(|at| PartId::mint(ticker.next_timestamp(EpochMillis(*at)), random))
            .collect();
        expected.push((id.to_string(), parts.clone()));
        store
            .write(&ctx().at_time(EpochMillis(at)), move |tx| {
                tx.messages().put(&user("ses_a", id.as_str(), at))?;
                parts.iter().try_for_each(|part| {
                    tx.messages()
                        .put_part(&text("ses_a", id.as_str(), part.as_str(), "x"))
                        .map(drop)
                })
            })
            .wait()
            .expect("written");
    }
    let mut sorted = expected.clone();
    sorted.sort();
    assert_ne!(sorted, expected, "ids and times are not in this order");
    for round in 0..2 {
        for limit in [1, 2, 3, 100] {
            let found = all_messages(&store, "ses_a", limit);
            let found: Vec<(String, Vec<PartId>)> = found
                .iter()
                .map(|m| (m.message.id.to_string(), m.parts.iter().map(|p| p.id.clone()).collect()))
                .collect();
            assert_eq!(found, expected, "limit {limit}, round {round}");
        }
        store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
    }
    // Changing an old message moves nothing.
    let oldest = expected[0].0.clone();
    write(&store, move |tx| tx.messages().put(&user("ses_a", &oldest, WRAP + 99)))
        .expect("changed");
    assert_eq!(ids(&all_messages(&store, "ses_a", 2)).first(), Some(&expected[0].0));
}

fn with_messages(dir: &std::path::Path, count: i64) -> Store {
    let store = with_sessions(dir, &["ses_a", "ses_b"]);
    for first in (0..count).step_by(40) {
        write(&store, move |tx| {
            (first..count.min(first + 40)).try_for_each(|n| {
                let m = format!("msg_{n}");
                tx.messages().put(&user("ses_a", &m, n))?;
                tx.messages().put_part(&text("ses_a", &m, &format!("prt_{n}_b"), "one"))?;
                tx.messages().put_part(&text("ses_a", &m, &format!("prt_{n}_a"), "two")).map(drop)
            })
        })
        .expect("written");
    }
    write(&store, |tx| tx.messages().put(&user("ses_b", "msg_other", 3))).expect("written");
    store
}

#[test]
fn pages_go_backward_without_gaps_or_repeats() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_messages(dir.path(), 123);
    let expected: Vec<String> = (0..123).map(|n| format!("msg_{n}")).collect();
    for limit in [1, 7, 50, 122, 123, 124, usize::MAX] {
        assert_eq!(ids(&all_messages(&store, "ses_a", limit)), expected, "limit {limit}");
        let pages = pages(&store, "ses_a", limit);
        assert!(pages.iter().all(|page| page.items.len() <= limit));
        assert_eq!(pages.len(), 123_usize.div_ceil(limit), "no empty page, limit {limit}");
    }
    let newest = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 1)).expect("page");
    assert_eq!(ids(&newest.items), ["msg_122"]);
    assert!(newest.before.is_some());
    let exact = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 123)).expect("page");
    assert_eq!((exact.items.len(), exact.before), (123, None), "exact limit, no cursor");
    let none = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 0)).expect("page");
    assert!(none.items.is_empty());
}

#[test]
fn json_page_equals_value_page() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let long = "\u{1F426} \"quoted\" \\ \n".repeat(4000);
    write(&store, move |tx| {
        tx.messages().put(&user("ses_a", "msg_1", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_1", "prt_1", "}]\"\\"))?;
        tx.messages().put_part(&text("ses_a", "msg_1", "prt_2", &long))?;
        let body = json!({ "type": "of tomorrow", "deep": [{ "er": null }], "number": 1.0e-7 });
        let part = json!({ "id": "prt_3", "sessionID": "ses_a", "messageID": "msg_1" });
        let mut unknown = body;
        for (key, value) in part.as_object().into_iter().flatten() {
            unknown[key] = value.clone();
        }
        tx.messages().put_part(&parse_part(unknown, ParseMode::Lenient).expect("a part"))?;
        tx.messages().put(&assistant("ses_a", "msg_2", 2))?;
        tx.messages().put_part(&text("ses_a", "msg_2", "prt_4", ""))?;
        tx.messages().append_text(&sid("ses_a"), &pid("prt_4"), "streamed, ")?;
        tx.messages().append_text(&sid("ses_a"), &pid("prt_4"), "\"twice\"").map(drop)
    })
    .expect("written");
    let found = all_messages(&store, "ses_a", 10);
    assert_eq!(found.iter().map(|item| item.parts.len()).collect::<Vec<_>>(), [3, 1]);
    let view = PartRenderer { is_verbatim: &|_| true, render: &part_info };
    let shown = store.read(&ctx(), |r| r.wire_json().list_messages(&sid("ses_a"), None, 10, view));
    let shown = shown.expect("a page");
    assert!(
        shown.json.contains("streamed, \\\"twice\\\""),
        "{}",
        &shown.json[shown.json.len() - 300..]
    );
}

#[test]
fn empty_page_and_unknown_session() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let empty = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 10)).expect("page");
    assert_eq!((empty.items.len(), empty.before), (0, None));
    let unknown = store.read(&ctx(), |r| r.messages().list(&sid("ses_x"), None, 10).map(|_| ()));
    assert!(matches!(unknown, Err(StoreError::NoSession(_))), "{unknown:?}");
}

#[test]
fn other_sessions_never_leak_into_a_page() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_messages(dir.path(), 5);
    write(&store, |tx| {
        tx.messages().put(&user("ses_b", "msg_b2", 2))?;
        tx.messages().put(&user("ses_a", "msg_last", 2))?;
        tx.messages().put_part(&text("ses_b", "msg_b2", "prt_b2", "not yours"))
    })
    .expect("written");
    let found = all_messages(&store, "ses_a", 2);
    assert!(found.iter().all(|m| m.message.session == sid("ses_a")));
    assert!(found.iter().flat_map(|m| &m.parts).all(|p| p.session == sid("ses_a")));
    assert_eq!(ids(&all_messages(&store, "ses_b", 1)), ["msg_other", "msg_b2"]);
    // A cursor of another session gives this session's messages, or none.
    let page = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 2)).expect("page");
    let borrowed = store
        .read(&ctx(), |r| r.messages().list(&sid("ses_b"), page.before.as_deref(), 10))
        .expect("page");
    assert!(borrowed.items.iter().all(|m| m.message.session == sid("ses_b")));
}

#[test]
fn equal_and_fractional_times_keep_their_order_and_value() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let times =
        [json!(5), json!(5), json!(5.25), json!(5.125), json!(5), json!(1_767_225_600_000.5)];
    let sent = times.clone();
    write(&store, move |tx| {
        sent.iter().enumerate().try_for_each(|(n, time)| {
            tx.messages().put(&user("ses_a", &format!("msg_{}", 9 - n), time.clone())).map(drop)
        })
    })
    .expect("written");
    let found = all_messages(&store, "ses_a", 2);
    assert_eq!(ids(&found), ["msg_9", "msg_8", "msg_7", "msg_6", "msg_5", "msg_4"]);
    let read: Vec<Value> =
        found.iter().map(|m| Value::Number(m.message.body.created().clone())).collect();
    assert_eq!(read, times);
}

#[test]
fn message_is_equal_by_page_id_and_parts() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_messages(dir.path(), 60);
    write(&store, |tx| tx.messages().put(&assistant("ses_a", "msg_bare", 1))).expect("written");
    let found = all_messages(&store, "ses_a", 7);
    for item in &found {
        let id = &item.message.id;
        let got = store.read(&ctx(), |r| r.messages().get(&sid("ses_a"), id)).expect("reads");
        assert_eq!(got, *item);
        for part in &item.parts {
            let got = store
                .read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &part.id))
                .expect("reads");
            assert_eq!(got, *part);
            assert_eq!((&got.session, &got.message), (&sid("ses_a"), id));
        }
        let order: Vec<&str> = item.parts.iter().map(|p| p.id.as_str()).collect();
        let n = id.as_str().trim_start_matches("msg_");
        let expected = [format!("prt_{n}_b"), format!("prt_{n}_a")];
        assert!(order.is_empty() || order == expected, "in the order they were written: {order:?}");
    }
    let bare = found.last().expect("one");
    assert_eq!((bare.parts.len(), bare.message.body.role()), (0, "assistant"));
    assert_eq!(found[0].message.body.role(), "user");
    assert_eq!(all_messages(&store, "ses_a", 7), all_messages(&store, "ses_a", usize::MAX));
}

#[test]
fn a_message_is_found_in_its_own_session_only() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_messages(dir.path(), 1);
    let get =
        |s: &str, m: &str| store.read(&ctx(), |r| r.messages().get(&sid(s), &mid(m)).map(|_| ()));
    assert!(get("ses_a", "msg_0").is_ok());
    assert!(matches!(get("ses_a", "msg_none"), Err(StoreError::NoMessage { .. })));
    assert!(matches!(get("ses_b", "msg_0"), Err(StoreError::NoMessage { .. })));
    assert!(matches!(get("ses_x", "msg_0"), Err(StoreError::NoSession(_))));
    let part =
        store.read(&ctx(), |r| r.messages().get_part(&sid("ses_b"), &pid("prt_0_a")).map(|_| ()));
    assert!(matches!(part, Err(StoreError::NoPart { .. })));
}

#[test]
fn page_cursor_survives_concurrent_writes() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_messages(dir.path(), 20);
    let newest = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 5)).expect("page");
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_late", 1))?;
        tx.messages().remove(&sid("ses_a"), &mid("msg_15"))
    })
    .expect("written");
    let before = newest.before.as_deref();
    let next = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), before, 5)).expect("page");
    assert_eq!(ids(&next.items), ["msg_10", "msg_11", "msg_12", "msg_13", "msg_14"]);
}

#[test]
fn json_session_list_equals_value_list() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store =
        with_sessions(dir.path(), &["ses_plain", "ses_word", "ses_long", "ses_used", "ses_fork"]);
    let change = |id: &'static str, change: fn(&mut Session)| {
        write(&store, move |tx| {
            tx.sessions().update(&sid(id), |session| {
                change(session);
                Ok(())
            })
        })
        .expect("changed");
    };
    change("ses_word", |session| session.title = "the \"origin\" of it".to_owned());
    change("ses_long", |session| {
        session.extra.insert("note".to_owned(), "long ".repeat(2000).into());
    });
    change("ses_fork", |session| {
        let session_id = sid("ses_plain");
        session.origin =
            Some(ForkOrigin { session: session_id, message: None, seq: SessionSeq(1) });
    });
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_used", "msg_u", 1))?;
        let step = json!({ "id": "prt_u", "sessionID": "ses_used", "messageID": "msg_u",
            "type": "step-finish", "reason": "stop", "cost": 0.25,
            "tokens": { "input": 7, "output": 2, "reasoning": 0, "cache": { "read": 1, "write": 0 } } });
        tx.messages().put_part(&parse_part(step, ParseMode::Strict).expect("a part"))
    })
    .expect("written");
    let filter = SessionFilter { archived: true, ..SessionFilter::default() };
    let rows = store.read(&ctx(), |r| r.sessions().list(&filter, None, 10)).expect("a page").items;
    let shown = store.read(&ctx(), |r| r.wire_json().list_sessions(&filter, 10)).expect("a list");
    let mut plain = Vec::new();
    for (row, shown) in rows.iter().zip(&shown) {
        let wanted = session_info(&row.session, row.usage);
        let found = match shown {
            ListedSession::Json(json) => {
                plain.push(row.session.id.to_string());
                serde_json::from_str(json).expect("JSON")
            }
            ListedSession::Row { row, .. } => session_info(&row.session, row.usage),
        };
        assert_eq!(found, wanted);
    }
    plain.sort();
    assert_eq!((rows.len(), shown.len()), (5, 5));
    let texts = ["ses_fork", "ses_plain", "ses_used", "ses_word"];
    assert_eq!(plain, texts, "these are shown from their text");
}

#[test]
fn session_with_missing_event_is_an_error() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    let other = raw(dir.path());
    let gone = "DELETE FROM event WHERE cursor = (SELECT image FROM session WHERE id = 'ses_a')";
    assert_eq!(other.execute(gone, []).expect("deleted"), 1);
    let filter = SessionFilter::default();
    let listed = store.read(&ctx(), |r| r.sessions().list(&filter, None, 10).map(drop));
    assert!(matches!(listed, Err(StoreError::Corrupt { .. })), "{listed:?}");
    let shown = store.read(&ctx(), |r| r.wire_json().list_sessions(&filter, 10).map(drop));
    assert!(matches!(shown, Err(StoreError::Corrupt { .. })), "{shown:?}");
}
