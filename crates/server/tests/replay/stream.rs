//! Streams as they were recorded: read as far as they go, and cut where the recorded server ended them.

use serde_json::Value;

use crate::compare::Difference;
use crate::events;
use crate::names::Names;
use crate::support::{Answer, Client};

/// What the recorded server numbers of the first prompt of a session in the second interface, from 0 on.
const NUMBERED: [&str; 7] =
    ["", "prompt.admitted", "prompted", "step.started", "text.started", "text.ended", "step.ended"];

/// Everything that the second interface has to say of the session of a path.
fn history(client: &Client, path: &str) -> Vec<Value> {
    let (session, _) = path.rsplit_once('/').expect("a path");
    let page = client.get(&format!("{session}/history?limit=100")).expect(200);
    assert_eq!(page["hasMore"], false, "all on one page");
    page["data"].as_array().expect("events").clone()
}

/// The path with the number that the same event has here; nothing if it asks after none.
pub(crate) fn numbered(client: &Client, path: &str) -> Option<String> {
    let (head, rest) = path.split_once("?after=")?;
    let (number, rest) = rest.split_once('&').map_or((rest, None), |(it, rest)| (it, Some(rest)));
    let kind = format!("session.next.{}", NUMBERED[number.parse::<usize>().ok()?]);
    let events = history(client, head);
    let event = events.iter().find(|it| it["type"] == kind).expect("the event");
    let rest = rest.map(|rest| format!("&{rest}")).unwrap_or_default();
    Some(format!("{head}?after={}{rest}", event["durable"]["seq"]))
}

/// The stream of a session up to what happened last; its events are the answer.
pub(crate) fn read(client: &Client, path: &str) -> Answer {
    let (head, _) = path.split_once('?').unwrap_or((path, ""));
    let last = history(client, head).pop().expect("an event");
    let mut stream = client.stream(path);
    let mut events = Vec::new();
    while events.last() != Some(&last) {
        events.push(stream.event().expect("goes on"));
    }
    let (status, headers) = (stream.status, stream.headers);
    Answer { status, headers, body: Value::from(events).to_string().into_bytes() }
}

/// `/api/event` from the first recorded event up to the next status, where the recorded stream ends.
pub(crate) fn until_status(text: &str, heard: &[Value], names: &Names) -> Vec<Difference> {
    let recorded = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let session = recorded.filter_map(|it| names.find(it["session"].as_str()?)).next();
    let is_first = |event: &Value| event["data"]["sessionID"].as_str() == session;
    let heard = &heard[heard.iter().position(is_first).expect("told of")..];
    let status = heard.iter().position(|event| event["type"] == "session.status");
    let (before, after) = heard.split_at(status.expect("a status"));
    let mut found = events::compare("api event", text, before, names);
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
