//! What streams told in the recordings, and what they tell here of the same requests.
//!
//! Compared are the first report of each thing, in order, for every session; and what each kind of event is
//! made of. How often something is reported again depends on the speed of the model.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::compare::Difference;
use crate::id_mapping::{self, IdMapping};
use crate::support::SseStream;

/// What ends a recording of ours.
pub(crate) const END: &str = "the recording has ended";

/// Something that was reported for the first time.
#[derive(Clone, Debug)]
struct ComparableEvent {
    /// Its type, and the message, part or request it is about.
    what: (String, Option<String>),
    session: Option<String>,
    /// What kind of thing it is, and what it is made of; only where it is the first of its kind.
    form: Option<(String, Value)>,
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// What a value is made of, without the values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(list) => list.first().map(shape).into_iter().collect(),
        Value::String(_) => json!("string"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => json!("null"),
    }
}

/// The recorded form of an event of ours.
fn comparable_event(event: &Value) -> ComparableEvent {
    let kind = event["type"].as_str().expect("a type");
    // The second interface has its own form, and what stands around it is looked at, too.
    let is_api = event["data"].is_object();
    let said = if is_api { &event["data"] } else { &event["properties"] };
    let (info, part) = (&said["info"], &said["part"]);
    let owner = if kind.starts_with("session.") { &info["id"] } else { &info["sessionID"] };
    let session =
        word(&said["sessionID"]).or_else(|| word(owner)).or_else(|| word(&part["sessionID"]));
    let (of, form) = if kind.starts_with("message.part") {
        let status = word(&part["state"]["status"]).unwrap_or_default();
        let form = format!("{kind} {} {status}", part["type"].as_str().unwrap_or_default());
        (word(&said["partID"]).or_else(|| word(&part["id"])), form)
    } else if kind.starts_with("message") {
        let form = format!("{kind} {}", info["role"].as_str().unwrap_or_default());
        (word(&said["messageID"]).or_else(|| word(&info["id"])), form)
    } else if kind.starts_with("permission") || kind.starts_with("question") {
        (word(&said["requestID"]).or_else(|| word(&said["id"])), kind.to_owned())
    } else if kind == "session.status" {
        let status = word(&said["status"]["type"]).unwrap_or_default();
        (Some(status.clone()), format!("{kind} {status}"))
    } else {
        (None, kind.to_owned())
    };
    let mut all = shape(if is_api { event } else { said });
    if let (true, Some(all)) = (is_api, all.as_object_mut()) {
        all.retain(|key, _| key != "id" && key != "type");
    }
    let form = Some((form.trim().to_owned(), all));
    ComparableEvent { what: (kind.to_owned(), of), session, form }
}

/// Everything a stream tells until the recording ends, or its directory is disposed of.
pub(crate) fn received_events(mut stream: SseStream) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(mut event) = stream.event() {
        if event["payload"].is_object() {
            event = event["payload"].take();
        }
        if event["properties"]["message"] == END || event["data"]["message"] == END {
            return events;
        }
        let kind = event["type"].as_str().expect("a type");
        if kind != "sync" && !kind.starts_with("server.") {
            events.push(event);
        }
    }
    events
}

fn recorded(text: &str) -> Vec<ComparableEvent> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let of = |line: Value| ComparableEvent {
        what: (word(&line["type"]).expect("a type"), word(&line["of"])),
        session: word(&line["session"]),
        form: word(&line["kind"]).map(|kind| (kind, line["shape"].clone())),
    };
    lines.map(of).collect()
}

/// The name of ours; nothing if nobody was ever told it.
fn ours(names: &IdMapping, name: &str) -> Option<String> {
    if id_mapping::kind(name).is_none() {
        Some(name.to_owned())
    } else {
        names.find(name).map(str::to_owned)
    }
}

/// What was reported of each session for the first time, in order.
type EventsBySession = BTreeMap<Option<String>, Vec<(String, Option<String>)>>;

fn events_by_session(reported: impl Iterator<Item = ComparableEvent>) -> EventsBySession {
    let mut stories = EventsBySession::new();
    for one in reported {
        let story = stories.entry(one.session).or_default();
        if !story.contains(&one.what) {
            story.push(one.what);
        }
    }
    stories
}

/// The parts of `one` that `other` lacks.
fn missing_fields(at: &str, one: &Value, other: &Value, found: &mut BTreeSet<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                let at = format!("{at}/{key}");
                // The input and output of a tool are its own.
                let is_own = at.ends_with("/state/input") || at.ends_with("/state/metadata");
                match other.get(key) {
                    Some(_) if is_own => {}
                    Some(other) => missing_fields(&at, value, other, found),
                    None => drop(found.insert(at)),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            if let (Some(one), Some(other)) = (one.first(), other.first()) {
                missing_fields(at, one, other, found);
            }
        }
        (one, other) if one == other => {}
        _ => drop(found.insert(at.to_owned())),
    }
}

/// What differs from the recording.
pub(crate) fn compare(
    stream: &str,
    text: &str,
    events: &[Value],
    names: &IdMapping,
) -> Vec<Difference> {
    let recorded = recorded(text);
    let ours_reported: Vec<ComparableEvent> = events.iter().map(comparable_event).collect();
    let mut found = Vec::new();
    let mut differs = |kind: &str, at: &str, recorded: String, ours: String| {
        found.push(Difference {
            label: format!("{stream} {kind}"),
            at: at.to_owned(),
            recorded,
            ours,
        });
    };
    let translated = recorded.iter().filter_map(|one| {
        let session = one.session.as_deref().map_or(Some(None), |it| ours(names, it).map(Some))?;
        let of = one.what.1.as_deref().map_or(Some(None), |it| ours(names, it).map(Some))?;
        Some(ComparableEvent { what: (one.what.0.clone(), of), session, form: None })
    });
    let (want, have) =
        (events_by_session(translated), events_by_session(ours_reported.iter().cloned()));
    // The recorded name of a session, which is always the same.
    let whose = |session: &Option<String>| {
        let name = |it: &&ComparableEvent| {
            it.session.as_deref().and_then(|it| names.find(it)) == session.as_deref()
        };
        recorded.iter().find(name).and_then(|it| it.session.clone()).unwrap_or_default()
    };
    for (session, story) in &want {
        let (empty, whose) = (Vec::new(), whose(session));
        let here = have.get(session).unwrap_or(&empty);
        for (kind, of) in story.iter().filter(|what| !here.contains(what)) {
            differs(
                kind,
                &format!("missing/{whose}"),
                format!("{session:?} {of:?}"),
                "(none)".to_owned(),
            );
        }
        for (kind, of) in here.iter().filter(|what| !story.contains(what)) {
            if of.as_deref().is_none_or(|of| names.is_ours(of)) {
                differs(
                    kind,
                    &format!("more/{whose}"),
                    "(none)".to_owned(),
                    format!("{session:?} {of:?}"),
                );
            }
        }
        // The state of a session is reported whenever it changes.
        let common = |what: &&(String, Option<String>)| {
            let passing = ["session.diff", "session.updated", "session.status", "session.idle"];
            !passing.contains(&what.0.as_str()) && story.contains(what) && here.contains(what)
        };
        let pairs = story.iter().filter(common).zip(here.iter().filter(common));
        if let Some((recorded, ours)) = pairs.into_iter().find(|(recorded, ours)| recorded != ours)
        {
            differs(
                &recorded.0,
                &format!("order/{whose}"),
                format!("{recorded:?}"),
                format!("{ours:?}"),
            );
        }
    }
    for (form, shape) in recorded.iter().filter_map(|one| one.form.as_ref()) {
        // A stream that was opened late was not told of the sessions before.
        let known = ours_reported.iter().filter(|one| want.contains_key(&one.session));
        let same = known.filter_map(|one| one.form.as_ref()).find(|it| it.0 == *form);
        let Some((_, here)) = same else {
            differs(form, "shape", "(told)".to_owned(), "(never)".to_owned());
            continue;
        };
        let (mut less, mut more) = (BTreeSet::new(), BTreeSet::new());
        missing_fields("shape", shape, here, &mut less);
        missing_fields("shape", here, shape, &mut more);
        less.iter()
            .for_each(|at| differs(form, at, "(there)".to_owned(), "(none or other)".to_owned()));
        more.difference(&less)
            .for_each(|at| differs(form, at, "(none)".to_owned(), "(there)".to_owned()));
    }
    found
}
