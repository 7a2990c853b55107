//! A server that is killed while a text is said, a command runs and a permission is asked for, and what its
//! clients find afterwards; and the whole log, as replicas read it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::compare::Difference;
use crate::event_comparison;
use crate::id_mapping::IdMapping;
use crate::recorded_sessions::RecordedSessions;
use crate::recording::pairs;
use crate::replay::{ask_again, house};
use crate::support::ServerFixture;

/// What was asked first when a server ran again.
const AFTER: [&str; 2] = ["after crash a", "a2 after crash"];

/// Plays the recording; what differs.
pub(crate) fn play() -> Vec<Difference> {
    let mut house = house();
    let names = Mutex::new(IdMapping::new(&house));
    let pairs = pairs(include_str!("../golden/crash.jsonl"));
    let model = RecordedSessions::of(&pairs);
    let mut found = Vec::new();
    for (nth, life) in pairs.chunk_by(|_, next| !AFTER.contains(&next.label.as_str())).enumerate() {
        if nth > 0 {
            house = house.crash();
        }
        found.extend(ask_again(&house, &names, &model, life));
    }
    found.extend(history(&house, &names.lock().expect("unpoisoned")));
    found
}

/// What replicas read: the recorded page was cut, so more is no difference.
fn history(house: &ServerFixture, names: &IdMapping) -> Vec<Difference> {
    let read = |known: &Value| house.client().post("/sync/history", known).expect(200);
    let all = read(&json!({}));
    let all = all.as_array().expect("events");
    let event = |event: &Value| {
        let kind = event["type"].as_str().expect("a type");
        let kind = kind.strip_suffix(".1").expect("a version");
        json!({ "type": kind, "properties": event["data"] })
    };
    let reported: Vec<Value> = all.iter().map(event).collect();
    let text = include_str!("../golden/crash-sync-history.jsonl");
    let mut found = event_comparison::compare("history", text, &reported, names);
    found.retain(|it| !it.at.starts_with("more/"));

    let mut newest: BTreeMap<String, i64> = BTreeMap::new();
    for event in all {
        let session = event["aggregate_id"].as_str().expect("a session").to_owned();
        let seq = event["seq"].as_i64().expect("a number");
        let next = newest.get(&session).map_or(0, |seq| seq + 1);
        assert_eq!(seq, next, "no number of {session} is left out");
        newest.insert(session, seq);
    }
    newest.insert("ses_nope".to_owned(), 5);
    assert_eq!(read(&json!(newest)), json!([]), "a replica that has everything receives nothing");
    let session = names.find("ses_e21c438a6ffeeQE75pHg0KsjoM").expect("known");
    *newest.get_mut(session).expect("known") -= 2;
    let late = read(&json!(newest));
    let late = late.as_array().expect("events");
    assert_eq!(late.len(), 2, "a replica that lacks two receives two");
    assert!(late.iter().all(|event| event["aggregate_id"] == session));
    found
}
