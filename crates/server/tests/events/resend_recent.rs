//! A client that does not say where it was receives what it may have missed.

use serde_json::json;
use turnstone_core::turn::TurnOutcome;

use crate::scripted_session::{
    BEGIN, ReceivedFrame, assistant, at, begin, frame, part, play_session, put, session, write,
};
use crate::support::{ServerFixture, SseStream, adjustable_now, advance_clock};

/// What a fresh stream receives before anything happens: up to the next event, which is made for it.
fn resent_events(house: &ServerFixture, stream: &mut SseStream) -> Vec<ReceivedFrame> {
    let made = house.client().post("/session", &json!({ "title": "mark" })).expect(200);
    let mut found = Vec::new();
    loop {
        let next = frame(stream).expect("the stream goes on");
        if next.json()["payload"]["properties"]["sessionID"] == made["id"] {
            return found;
        }
        if !next.is_own() {
            found.push(next);
        }
    }
}

#[test]
fn new_stream_receives_recent_state_without_deltas() {
    let house = ServerFixture::with_settings(|settings| settings.clock = || at(1_000).now);
    let id = session(&house, "healed");
    let turn = begin(house.engine(), &id, "msg_h_0", "go");
    let answer = assistant(&id, "msg_h_0a", "msg_h_0");
    write(house.engine(), &turn.context(&at(2)), move |tx| tx.messages().put(&answer).map(drop));
    let open = json!({ "type": "text", "text": "", "time": { "start": BEGIN } });
    put(house.engine(), &turn, 3, part(&id, "msg_h_0a", "prt_h_0t", open));
    for word in ["while ", "you ", "were ", "away"] {
        let part = "prt_h_0t".parse().expect("an id");
        house.engine().turns().steps().append_text(&at(4), &turn, &part, word).expect("appended");
    }
    let mut stream = house.client().stream("/global/event");
    assert_eq!(frame(&mut stream).map(|it| it.kind()).as_deref(), Some("server.connected"));
    let reported = resent_events(&house, &mut stream);
    let kinds: Vec<String> = reported.iter().map(ReceivedFrame::kind).collect();
    assert!(!kinds.iter().any(|kind| kind == "message.part.delta" || kind == "sync"), "{kinds:?}");
    let text = reported.iter().find(|it| it.text.contains("prt_h_0t")).expect("the part").json();
    assert_eq!(text["payload"]["properties"]["part"]["text"], "while you were away");
    let status = reported.iter().find(|it| it.kind() == "session.status").expect("a status").json();
    assert_eq!(status["payload"]["properties"]["status"]["type"], "busy");
    for (kind, count) in [("session.updated", 0), ("session.created", 1), ("message.updated", 2)] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), count, "{kind} in {kinds:?}");
    }
    // Sent again, they have no position: a client that comes back says where it was before.
    assert!(reported.iter().all(|it| it.id.is_none()));
    house.engine().turns().end(&at(9), &turn, TurnOutcome::Completed, None).expect("ended");
}

#[test]
fn recent_state_has_each_live_entity_once() {
    let house = ServerFixture::with_settings(|settings| settings.clock = || at(1_000).now);
    play_session(&house, "o", 3);
    let mut stream = house.client().stream("/global/event");
    let reported = resent_events(&house, &mut stream);
    let mut names: Vec<String> = reported
        .iter()
        .map(|it| {
            let said = it.json()["payload"]["properties"].clone();
            let name = [&said["part"]["id"], &said["info"]["id"], &said["messageID"]];
            let name = name.into_iter().find_map(|it| it.as_str()).unwrap_or_default().to_owned();
            format!("{} {name} {}", it.kind(), said["requestID"])
        })
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
    assert!(!names.iter().any(|name| name.contains("prt_o_0")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("message.removed msg_o_0")), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("session.error")), "{names:?}");
}

#[test]
fn old_state_is_not_resent() {
    let house = ServerFixture::with_settings(|settings| settings.clock = || at(10_000_000).now);
    play_session(&house, "old", 1);
    let mut stream = house.client().stream("/global/event");
    assert_eq!(resent_events(&house, &mut stream), Vec::new());
}

/// OpenCode's terminal shows a dialog only for a request that its stream announces.
#[test]
fn every_new_stream_announces_pending_requests_once() {
    let house = ServerFixture::with_settings(|settings| settings.clock = adjustable_now);
    house.configure_user(r#"{"permission":{"bash":"ask"}}"#);
    let made = house.client().post("/session", &json!({})).expect(200);
    let path = format!("/api/session/{}/permission", made["id"].as_str().expect("an id"));
    let ask = |line: &str| {
        let body = json!({ "action": "bash", "resources": [line] });
        house.client().post(&path, &body).expect(200)["data"]["id"].clone()
    };
    let announced = |path: &str| {
        let mut stream = house.client().stream(path);
        let mark = house.client().post("/session", &json!({})).expect(200)["id"].clone();
        let mut found = Vec::new();
        loop {
            let event = stream.event().expect("the stream goes on");
            let event = if event["payload"].is_object() { &event["payload"] } else { &event };
            if event["type"] == "permission.asked" {
                found.push(event["properties"]["id"].clone());
            }
            if event["properties"]["sessionID"] == mark {
                return found;
            }
        }
    };
    let old = ask("old");
    // The newest state of what changed in the last five minutes is sent anyway.
    advance_clock(3_600_000);
    let new = ask("new");
    for stream in ["/event", "/global/event"] {
        let mut found = announced(stream);
        found.sort_by_key(|id| *id == new);
        assert_eq!(found, [old.clone(), new.clone()], "{stream}");
    }
    let end = house.engine().store().read(&at(0), |r| r.log().last_cursor()).expect("read");
    assert!(announced(&format!("/global/event?after={}", end.0)).is_empty(), "it was there before");
    let reply = format!("{path}/{}/reply", old.as_str().expect("an id"));
    assert_eq!(house.client().post(&reply, &json!({ "reply": "once" })).status, 204);
    assert_eq!(announced("/event"), [new]);
}
