//! Streams as they were recorded: read as far as they go, and cut where the recorded server ended them.

use serde_json::{Value, json};

use crate::compare::Difference;
use crate::event_comparison;
use crate::id_mapping::IdMapping;
use crate::support::{HttpAnswer, ServerFixture, TestClient};

/// What the recorded server numbers of the first prompt of a session in the second interface, from 0 on.
const NUMBERED: [&str; 7] =
    ["", "prompt.admitted", "prompted", "step.started", "text.started", "text.ended", "step.ended"];

/// All events of the second interface about the session of a path.
fn history(client: &TestClient, path: &str) -> Vec<Value> {
    let (session, _) = path.rsplit_once('/').expect("a path");
    let page = client.get(&format!("{session}/history?limit=100")).expect(200);
    assert_eq!(page["hasMore"], false, "all on one page");
    page["data"].as_array().expect("events").clone()
}

/// The path with the number that the same event has here; nothing if it asks after none.
pub(crate) fn numbered(client: &TestClient, path: &str) -> Option<String> {
    let (head, rest) = path.split_once("?after=")?;
    let (number, rest) = rest.split_once('&').map_or((rest, None), |(it, rest)| (it, Some(rest)));
    let kind = format!("session.next.{}", NUMBERED[number.parse::<usize>().ok()?]);
    let events = history(client, head);
    let event = events.iter().find(|it| it["type"] == kind).expect("the event");
    let rest = rest.map(|rest| format!("&{rest}")).unwrap_or_default();
    Some(format!("{head}?after={}{rest}", event["durable"]["seq"]))
}

/// The stream of a session up to what happened last; its events are the answer.
pub(crate) fn read(client: &TestClient, path: &str) -> HttpAnswer {
    let (head, _) = path.split_once('?').unwrap_or((path, ""));
    let last = history(client, head).pop().expect("an event");
    let mut stream = client.stream(path);
    let mut events = Vec::new();
    while events.last() != Some(&last) {
        events.push(stream.event().expect("goes on"));
    }
    let (status, headers) = (stream.status, stream.headers);
    HttpAnswer { status, headers, body: Value::from(events).to_string().into_bytes() }
}

/// `/api/event` from the first recorded event up to the next status, where the recorded stream ends.
pub(crate) fn until_status(text: &str, received: &[Value], names: &IdMapping) -> Vec<Difference> {
    let recorded = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let session = recorded.filter_map(|it| names.find(it["session"].as_str()?)).next();
    let is_first = |event: &Value| event["data"]["sessionID"].as_str() == session;
    let received = &received[received.iter().position(is_first).expect("told of")..];
    let status = received.iter().position(|event| event["type"] == "session.status");
    let (before, after) = received.split_at(status.expect("a status"));
    let mut found = event_comparison::compare("api event", text, before, names);
    if after.len() > 1 {
        found.push(Difference {
            label: "api event".to_owned(),
            at: "end".to_owned(),
            recorded: "(closed)".to_owned(),
            ours: after[1].to_string(),
        });
    }
    found
}

/// A frame as it was recorded: its data without a name of its own, or what its comment says.
fn frame(lines: &[String]) -> Value {
    let Some(data) = lines.iter().find_map(|line| line.strip_prefix("data: ")) else {
        return json!(lines.join("\n"));
    };
    let mut event: Value = serde_json::from_str(data).expect("JSON");
    let inner = if event["payload"].is_object() { &mut event["payload"] } else { &mut event };
    inner.as_object_mut().expect("an event").remove("id");
    event
}

/// How streams begin, and what one begins with whose client says where it was.
pub(crate) fn openings(house: &ServerFixture) -> Vec<Difference> {
    house.client().post("/session", &json!({ "title": "missed" })).expect(200);
    let mut found = Vec::new();
    for line in include_str!("../golden/sse-openings.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let path = recorded["path"].as_str().expect("a path");
        let is_back = recorded["last"] == true;
        let label = format!("{} {path}", if is_back { "resume" } else { "open" });
        let mut differs = |at: String, recorded: String, ours: String| {
            found.push(Difference { label: label.clone(), at, recorded, ours });
        };
        let client = house.client().clone();
        let client = if is_back { client.with_header("last-event-id", "0") } else { client };
        let mut stream = client.stream(path);
        for (name, value) in recorded["headers"].as_object().expect("headers") {
            let ours = stream.headers.iter().find(|header| header.0 == *name);
            let ours = ours.map(|header| header.1.as_str());
            if ours != value.as_str() {
                differs(format!("header/{name}"), value.to_string(), format!("{ours:?}"));
            }
        }
        for want in recorded["frames"].as_array().expect("frames") {
            let lines = stream.frame().expect("a frame");
            let ours = frame(&lines);
            if ours != *want {
                differs("frame".to_owned(), want.to_string(), ours.to_string());
            }
            if let Some(id) = lines.iter().find(|line| line.starts_with("id:")) {
                differs("frame/id".to_owned(), "(none)".to_owned(), id.clone());
            }
        }
        if is_back {
            let next = frame(&stream.frame().expect("what was missed"));
            differs("missed".to_owned(), "(nothing)".to_owned(), next.to_string());
        }
    }
    found
}
