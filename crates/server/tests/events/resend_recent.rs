//! A client that does not say where it was receives what it may have missed.

use serde_json::json;
use turnstone_core::turn::TurnOutcome;

use crate::scripted_session::{
    BEGIN, ReceivedFrame, assistant, at, begin, frame, part, play_session, put, session, write,
};
use crate::support::{ServerFixture, SseStream};

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
