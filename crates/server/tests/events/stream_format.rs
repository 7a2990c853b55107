//! What a stream looks like: headers, first frame, heartbeats, directories, its end.

use std::time::Duration;

use serde_json::json;

use crate::scripted_session::{frame, frames, session};
use crate::support::ServerFixture;

#[test]
fn stream_has_recorded_headers_and_starts_with_connected() {
    let house = ServerFixture::new();
    for path in ["/event", "/global/event", "/api/event"] {
        let mut stream = house.client().stream(path);
        assert_eq!(stream.status, 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            ("x-content-type-options", "nosniff"),
            ("transfer-encoding", "chunked"),
        ] {
            let found = stream.headers.iter().find(|header| header.0 == name);
            assert_eq!(found.map(|header| header.1.as_str()), Some(value), "{name} of {path}");
        }
        let mut hello = frame(&mut stream).expect("a first frame").json();
        let inner = if path == "/global/event" { hello["payload"].take() } else { hello };
        let id = inner["id"].as_str().expect("an id");
        assert!(id.starts_with("evt_") && id.len() == 30, "{id}");
        let said = if path == "/api/event" { "data" } else { "properties" };
        assert_eq!(inner, json!({ "id": id, "type": "server.connected", said: {} }));
    }
}

#[test]
fn instance_stream_is_scoped_and_global_stream_is_not() {
    let house = ServerFixture::new();
    let other = house.sibling("other");
    fs_err::create_dir_all(&other).expect("made");
    let mut mine = house.client().stream("/event");
    let theirs = format!("/event?directory={}", other.display());
    let mut theirs = house.client().stream(&theirs);
    let mut all = house.client().stream("/global/event");
    for stream in [&mut mine, &mut theirs, &mut all] {
        assert!(frame(stream).expect("a first frame").is_own());
    }
    let by = house.client().with_header("x-opencode-directory", &other.display().to_string());
    let elsewhere = by.post("/session", &json!({ "title": "elsewhere" })).expect(200);
    let here = house.client().post("/session", &json!({ "title": "here" })).expect(200);
    assert_eq!(frames(&mut mine, 1)[0].json()["properties"]["info"]["id"], here["id"]);
    assert_eq!(frames(&mut theirs, 1)[0].json()["properties"]["info"]["id"], elsewhere["id"]);
    // The first session of each directory stores its project.
    let made: Vec<_> = frames(&mut all, 6)
        .into_iter()
        .filter(|frame| frame.kind() == "session.created")
        .map(|frame| frame.json())
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert_eq!(made[0]["directory"], json!(other));
    assert_eq!(made[0]["project"], elsewhere["projectID"]);
    assert_eq!(made[1]["directory"], json!(house.project()));
}

#[test]
fn api_stream_continues_after_status() {
    // OpenCode's own stream of this kind ends at the first of them.
    let house = ServerFixture::new();
    let mut stream = house.client().stream("/api/event");
    let id = crate::scripted_session::play_session(&house, "v", 1);
    let found = frames(&mut stream, 20);
    let kinds: Vec<_> = found.iter().map(crate::scripted_session::ReceivedFrame::kind).collect();
    let busy = kinds.iter().position(|kind| kind == "session.status").expect("a status");
    assert!(busy + 1 < kinds.len());
    let made = found.iter().find(|frame| frame.kind() == "session.created").expect("made").json();
    assert_eq!(made["durable"], json!({ "aggregateID": id, "seq": 0, "version": 1 }));
    assert_eq!(made["location"], json!({ "directory": house.project() }));
    assert_eq!(made["data"]["sessionID"], json!(id));
}

#[test]
fn idle_stream_sends_heartbeats_with_position() {
    let house = ServerFixture::new();
    let mut stream = house.client().stream("/event");
    let hello = frame(&mut stream).expect("a first frame");
    session(&house, "x");
    let made = frames(&mut stream, 1).remove(0);
    let beat = frame(&mut stream).expect("a heartbeat");
    assert_eq!(beat.kind(), "server.heartbeat");
    assert_eq!(beat.id, made.id);
    assert_ne!(beat.id, hello.id);
}

#[test]
fn streams_close_on_shutdown() {
    let house = ServerFixture::new();
    let mut stream = house.client().stream("/global/event");
    assert!(frame(&mut stream).is_some());
    let house = house.restart();
    stream.set_timeout(Duration::from_secs(20));
    assert!(frame(&mut stream).is_none());
    let mut stream = house.client().stream("/global/event");
    assert!(frame(&mut stream).is_some());
}
