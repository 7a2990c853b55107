//! The streams of OpenCode 1.18.33 for one prompt with one tool, recorded, and ours for the same session.
//!
//! Ours is driven through the store in the recorded order. Neither ids of events nor ephemeral events are
//! no log (`file.*`). A status or a diff that is the same as before is sent once here.

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Message, Part, Project};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_core::wire::{self, ParseMode};
use turnstone_store::{Context, EndTurn, Lease, LeaseTakeoverPolicy, NewTurn, SyncBody};

use crate::scripted_session::{ReceivedFrame, at, frame, write};
use crate::support::ServerFixture;

const DIRECTORY: &str = "/home/user/project";

fn recorded(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs_err::read_to_string(path).expect("read");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line.get("data").cloned()).collect()
}

fn inner(event: &Value) -> &Value {
    if event["payload"].is_object() { &event["payload"] } else { event }
}

/// What is compared: no names of events, no control or ephemeral events, nothing
/// that is said again without having changed.
fn comparable_events(events: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    let mut last = std::collections::BTreeMap::new();
    for mut event in events {
        let kind = inner(&event)["type"].as_str().expect("a type").to_owned();
        if kind.starts_with("server.") || kind.starts_with("file.") {
            continue;
        }
        if kind == "session.status" || kind == "session.diff" {
            let said = inner(&event)["properties"].clone();
            if last.insert(kind, said.clone()) == Some(said) {
                continue;
            }
        }
        for pointer in ["/id", "/payload/id", "/payload/syncEvent/id"] {
            if let Some(id) = event.pointer_mut(pointer) {
                let text = id.as_str().expect("an id");
                assert!(text.starts_with("evt_") && text.len() == 30, "{text}");
                *id = json!("evt");
            }
        }
        kept.push(event);
    }
    kept
}

/// Does to the store what the recorded events tell.
struct RecordingPlayer<'a> {
    house: &'a ServerFixture,
    session: SessionId,
    lease: Option<Lease>,
    number: i64,
    now: i64,
}

impl RecordingPlayer<'_> {
    fn ctx(&self) -> Context {
        let ctx = at(0).at_time(EpochMillis(self.now));
        self.lease.as_ref().map_or(ctx.clone(), |lease| ctx.with_lease(lease))
    }

    /// The next numbered event, exactly one.
    fn replicate(&mut self, body: SyncBody) {
        let (session, number) = (self.session.clone(), self.number);
        write(self.house.engine(), &self.ctx(), move |tx| {
            tx.sync().replicate(&session, number, &body).map(drop)
        });
        self.number += 1;
    }

    fn begin(&mut self, message: Message, part: Part) {
        let store = self.house.engine().store();
        let lease = store
            .leases()
            .acquire(&self.ctx(), &self.session, LeaseTakeoverPolicy::IfDead)
            .expect("a lease");
        self.lease = Some(lease);
        let new = NewTurn { id: "trn_golden".parse().expect("an id"), message, parts: vec![part] };
        write(self.house.engine(), &self.ctx(), move |tx| tx.turns().begin(&new).map(drop));
        self.number += 2;
    }

    fn status(&self, word: &str) {
        let (session, turn) = (self.session.clone(), "trn_golden".parse().expect("an id"));
        if word == "busy" {
            write(self.house.engine(), &self.ctx(), move |tx| {
                tx.turns().transition(&session, &turn, &TurnEvent::Started).map(drop)
            });
        } else {
            let outcome = TurnOutcome::Completed;
            let end = EndTurn { session, turn, outcome, error: None };
            write(self.house.engine(), &self.ctx(), move |tx| tx.turns().end(&end).map(drop));
        }
    }

    fn play(&mut self, events: &[Value]) {
        let mut events = events.iter();
        while let Some(event) = events.next() {
            let said = &event["properties"];
            self.now = said["time"].as_i64().unwrap_or(self.now);
            match event["type"].as_str().expect("a type") {
                "session.created" | "session.updated" => {
                    let mut session = wire::parse_session(said["info"].clone()).expect("a session");
                    // What it cost is counted from the steps here.
                    session.usage_base = None;
                    self.replicate(SyncBody::Session(Box::new(session)));
                }
                "message.updated" => {
                    let message = wire::parse_message(said["info"].clone()).expect("a message");
                    if self.lease.is_some() {
                        self.replicate(SyncBody::Message(Box::new(message)));
                        continue;
                    }
                    let next = &events.next().expect("its part")["properties"];
                    self.now = next["time"].as_i64().expect("a time");
                    let part =
                        wire::parse_part(next["part"].clone(), ParseMode::Strict).expect("a part");
                    self.begin(message, part);
                }
                "message.part.updated" => {
                    let part =
                        wire::parse_part(said["part"].clone(), ParseMode::Strict).expect("a part");
                    self.replicate(SyncBody::Part(Box::new(part)));
                }
                "message.part.delta" => {
                    let text = said["delta"].as_str().expect("text").to_owned();
                    let part = said["partID"].as_str().expect("an id").parse().expect("an id");
                    let session = self.session.clone();
                    write(self.house.engine(), &self.ctx(), move |tx| {
                        tx.messages().append_text(&session, &part, &text).map(drop)
                    });
                }
                "session.status" => self.status(said["status"]["type"].as_str().expect("a word")),
                "session.diff" => {
                    let diff = wire::parse_file_diffs(said["diff"].clone()).expect("a diff");
                    let session = self.session.clone();
                    write(self.house.engine(), &self.ctx(), move |tx| {
                        tx.sessions().put_diff(&session, &diff).map(drop)
                    });
                }
                _ => {}
            }
        }
    }
}

/// A house in which the recorded session was played.
fn server_with_recording() -> ServerFixture {
    let house = ServerFixture::new();
    let events = recorded("sse-canonical-event.jsonl");
    let made = events.iter().find(|it| it["type"] == "session.created").expect("made");
    let info = &made["properties"]["info"];
    let project: Project = serde_json::from_value(json!({ "id": info["projectID"],
        "worktree": DIRECTORY, "vcs": "git", "time": { "created": 1, "updated": 1 }, "sandboxes": [] }))
    .expect("a project");
    write(house.engine(), &at(0), move |tx| tx.projects().put(&project).map(drop));
    let session = info["id"].as_str().expect("an id").parse().expect("an id");
    let mut player = RecordingPlayer { house: &house, session, lease: None, number: 0, now: 1 };
    player.play(&events);
    house
}

fn own_events(house: &ServerFixture, path: &str, count: usize) -> Vec<Value> {
    let mut stream = house.client().with_header("last-event-id", "0").stream(path);
    let mut found = Vec::new();
    while found.len() < count {
        let next: ReceivedFrame = frame(&mut stream).expect("the stream goes on");
        if inner(&next.json())["type"] != "project.updated" {
            found.extend(comparable_events([next.json()]));
        }
    }
    found
}

fn compare(path: &str, recording: &str) {
    let expected = comparable_events(recorded(recording));
    let house = server_with_recording();
    let found = own_events(&house, path, expected.len());
    for (nth, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "frame {nth} of {path}");
    }
}

#[test]
fn instance_stream_matches_recording() {
    compare(&format!("/event?directory={DIRECTORY}"), "sse-canonical-event.jsonl");
}

#[test]
fn global_stream_matches_recording() {
    compare("/global/event", "sse-canonical-global.jsonl");
}
