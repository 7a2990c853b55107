//! Replicas and the second interface: the same numbers, on the same log.

use serde_json::{Value, json};

use crate::scripted_session::{
    ReceivedFrame, at, begin, compact_log, end_of_log, frame, frames, play_session, session,
};
use crate::support::ServerFixture;
use turnstone_core::turn::TurnOutcome;

fn history(house: &ServerFixture, known: &Value) -> Vec<Value> {
    let answer = house.client().post("/sync/history", known).expect(200);
    answer.as_array().expect("a list").clone()
}

/// Without what each server names for itself.
fn without_volatile_fields(rows: &[Value]) -> Vec<Value> {
    let strip = |row: &Value| {
        let mut row = row.clone();
        row["id"] = json!("evt");
        if let Some(info) = row["data"]["info"].as_object_mut() {
            info.remove("projectID");
        }
        row
    };
    rows.iter().map(strip).collect()
}

fn replay(house: &ServerFixture, rows: &[Value]) -> crate::support::HttpAnswer {
    let events: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            row["aggregateID"] = row["aggregate_id"].take();
            row
        })
        .collect();
    let body = json!({ "directory": house.project(), "events": events });
    house.client().post("/sync/replay", &body)
}

/// Proves R25.
#[test]
fn sync_history_is_complete_ordered_and_equals_the_stream() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    let (one, two) = (play_session(&house, "a", 4), play_session(&house, "b", 1));
    let rows = history(&house, &json!({}));
    let numbers: Vec<i64> = rows.iter().map(|row| row["seq"].as_i64().expect("a number")).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    for id in [&one, &two] {
        let own = rows.iter().filter(|row| row["aggregate_id"] == json!(id));
        let own: Vec<i64> = own.map(|row| row["seq"].as_i64().expect("a number")).collect();
        assert_eq!(own, (0..own.len() as i64).collect::<Vec<_>>());
    }
    let mut stream =
        house.client().with_header("last-event-id", &from.to_string()).stream("/global/event");
    let mut reported = Vec::new();
    while reported.len() < rows.len() {
        let next = frames(&mut stream, 1).remove(0);
        if next.kind() == "sync" {
            let mut event = next.json()["payload"]["syncEvent"].clone();
            event["aggregate_id"] = event["aggregateID"].take();
            event.as_object_mut().expect("an object").remove("aggregateID");
            reported.push(event);
        }
    }
    let order = |row: &Value| (row["seq"].as_i64(), row["aggregate_id"].to_string());
    let (mut rows, mut reported) = (rows, reported);
    rows.sort_by_key(order);
    reported.sort_by_key(order);
    assert_eq!(rows, reported);
    // Only what is not known yet.
    let last = rows.iter().filter(|row| row["aggregate_id"] == json!(one)).count() as i64 - 1;
    let rest =
        history(&house, &json!({ (one.as_str()): last - 2, (two.as_str()): 999, "ses_nope": 5 }));
    assert_eq!(rest.len(), 2);
}

#[test]
fn replaying_history_creates_a_replica_idempotently() {
    let (origin, replica) = (ServerFixture::new(), ServerFixture::new());
    play_session(&origin, "r", 3);
    let rows = history(&origin, &json!({}));
    for _ in 0..2 {
        let answer = replay(&replica, &rows).expect(200);
        assert_eq!(answer, json!({ "sessionID": rows[0]["aggregate_id"] }));
        assert_eq!(
            without_volatile_fields(&history(&replica, &json!({}))),
            without_volatile_fields(&rows)
        );
    }
    let end = end_of_log(origin.engine());
    replay(&origin, &rows).expect(200);
    assert_eq!(end_of_log(origin.engine()), end, "nothing was written");
    // In pieces that overlap.
    let third = ServerFixture::new();
    replay(&third, &rows[..30]).expect(200);
    replay(&third, &rows[10..]).expect(200);
    assert_eq!(
        without_volatile_fields(&history(&third, &json!({}))),
        without_volatile_fields(&rows)
    );
}

#[test]
fn invalid_replay_is_rejected_without_changes() {
    let (origin, replica) = (ServerFixture::new(), ServerFixture::new());
    play_session(&origin, "x", 1);
    let rows = history(&origin, &json!({}));
    replay(&replica, &rows[..5]).expect(200);
    let before = history(&replica, &json!({}));
    let changed = |at: usize, key: &str, value: Value| {
        let mut rows = rows.clone();
        rows[at][key] = value;
        rows
    };
    let mut other = rows.clone();
    other[3]["data"]["part"]["text"] = json!("another text");
    for (why, wrong) in [
        ("a gap behind what is here", rows[7..].to_vec()),
        ("a gap inside", changed(6, "seq", json!(9))),
        ("a negative number", changed(0, "seq", json!(-1))),
        ("half a number", changed(0, "seq", json!(1.5))),
        ("an invalid id", changed(0, "id", json!("nope"))),
        ("a type nobody knows", changed(2, "type", json!("message.updated.9"))),
        ("another session", changed(2, "aggregate_id", json!("ses_other"))),
        ("another text than here", other),
        ("nothing", Vec::new()),
    ] {
        let answer = replay(&replica, &wrong);
        assert_eq!(answer.status, 400, "{why}: {}", answer.text());
        assert_eq!(history(&replica, &json!({})), before, "{why}");
    }
    let missing = replica.client().post("/sync/replay", &json!({})).expect(400);
    assert_eq!(missing["data"]["message"], "Missing key\n  at [\"directory\"]");
    let word = replica.client().post("/sync/history", &json!({ "x": "y" })).expect(400);
    assert_eq!(word["data"]["message"], "Expected number, got \"y\"\n  at [\"x\"]");
}

#[test]
fn sync_start_and_steal_match_recording() {
    let house = ServerFixture::new();
    let id = session(&house, "s");
    assert_eq!(house.client().post("/sync/start", &json!({})).expect(200), json!(true));
    let refused = house.client().post("/sync/steal", &json!({ "sessionID": id })).expect(400);
    assert_eq!(refused, json!({ "_tag": "BadRequest" }));
}

/// Proves R25.
#[test]
fn sync_history_after_compaction_has_every_number() {
    let house = ServerFixture::new();
    play_session(&house, "k", 3);
    let before = history(&house, &json!({}));
    compact_log(&house, &at(1_000_000_000));
    let after = history(&house, &json!({}));
    let numbers = |rows: &[Value]| rows.iter().map(|row| row["seq"].clone()).collect::<Vec<_>>();
    assert_eq!(numbers(&after), numbers(&before));
    assert_ne!(after, before);
    let replica = ServerFixture::new();
    replay(&replica, &after).expect(200);
}

/// Proves R45.
#[test]
fn status_lists_only_busy_sessions() {
    let house = ServerFixture::new();
    session(&house, "idle");
    let id = session(&house, "busy");
    let turn = begin(house.engine(), &id, "msg_s_0", "go");
    let status = || house.client().get("/session/status").expect(200);
    assert_eq!(status(), json!({ (id.as_str()): { "type": "busy" } }));
    let retry = json!({ "type": "retry", "attempt": 1, "message": "slow down", "next": 5 });
    let (name, named) = (turn.id.clone(), serde_json::from_value(retry.clone()).expect("a status"));
    let ctx = turn.context(&at(5));
    let of = id.clone();
    crate::scripted_session::write(house.engine(), &ctx, move |tx| {
        tx.turns().set_retry(&of, &name, &named)
    });
    assert_eq!(status(), json!({ (id.as_str()): retry }));
    house.engine().turns().end(&at(9), &turn, TurnOutcome::Completed, None).expect("ended");
    assert_eq!(status(), json!({}));
}

#[test]
fn session_stream_replays_then_follows() {
    let house = ServerFixture::new();
    let id = play_session(&house, "n", 4);
    let path = format!("/api/session/{id}");
    let page = house.client().get(&format!("{path}/history?limit=100")).expect(200);
    let all = page["data"].as_array().expect("a list").clone();
    assert_eq!(page["hasMore"], false);
    let kinds: Vec<&str> = all.iter().map(|it| it["type"].as_str().expect("a type")).collect();
    for kind in ["text.started", "text.ended", "tool.called", "tool.success", "step.ended"] {
        assert!(kinds.contains(&format!("session.next.{kind}").as_str()), "{kind} in {kinds:?}");
    }
    let few = house.client().get(&format!("{path}/history?limit=2")).expect(200);
    assert_eq!((few["data"].as_array().map(Vec::len), &few["hasMore"]), (Some(2), &json!(true)));
    let seq = all[2]["durable"]["seq"].clone();
    let mut stream = house.client().stream(&format!("{path}/event?after={seq}"));
    let read = |stream: &mut crate::support::SseStream, count: usize| -> Vec<Value> {
        (0..count)
            .map(|_| frame(stream).as_ref().map(ReceivedFrame::json).expect("goes on"))
            .collect()
    };
    assert_eq!(read(&mut stream, all.len() - 3), all[3..]);
    let turn = begin(house.engine(), &id, "msg_n_live", "and now");
    let live = read(&mut stream, 1).remove(0);
    assert_eq!(live["type"], "session.next.prompted");
    assert_eq!(live["data"]["prompt"], json!({ "text": "and now" }));
    house.engine().turns().end(&at(9), &turn, TurnOutcome::Completed, None).expect("ended");
    let bad = house.client().get(&format!("{path}/history?after=x")).expect(400);
    let words = "Expected an integer, got NaN\n  at [\"after\"]";
    assert_eq!(bad, json!({ "_tag": "InvalidRequestError", "message": words, "kind": "Query" }));
    let unknown = house.client().get("/api/session/ses_nope/history").expect(404);
    assert_eq!(unknown["_tag"], "SessionNotFoundError");
}

#[test]
fn fork_is_published_as_a_session() {
    let house = ServerFixture::new();
    let id = play_session(&house, "whole", 2);
    let forked = house.client().post(&format!("/session/{id}/fork"), &json!({})).expect(200);
    let reported = history(&house, &json!({}));
    let rows = reported.iter();
    let images: Vec<&Value> = rows
        .filter(|row| row["data"]["info"]["id"] == forked["id"])
        .map(|row| &row["data"]["info"])
        .collect();
    assert!(!images.is_empty());
    for image in images {
        let keys = image.as_object().expect("a session").keys();
        assert_eq!(keys.filter(|key| key.contains("turnstone")).count(), 0, "{image}");
        assert_eq!(image["time"].get("archived"), None, "{image}");
        assert_eq!((&image["cost"], &image["tokens"]["input"]), (&json!(0), &json!(0)), "{image}");
    }
}
