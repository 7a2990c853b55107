//! Prompts, commands, permissions and questions over real sockets.

mod file;
mod path;
mod prompt;
mod queue;
mod recorded;
mod repeat;
mod request;
mod runner;
mod stop;
mod template;

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::House;
use turnstone_core::id::SessionId;
use turnstone_core::time::Millis;
use turnstone_store::{Actor, Context};

/// A new session of the project.
fn session(house: &House) -> String {
    let made = house.client().post("/session", &json!({})).expect(200);
    made["id"].as_str().expect("an id").to_owned()
}

/// The engine's way to name the same session.
fn named(session: &str) -> SessionId {
    session.parse().expect("a session")
}

/// The same person, working on the data beside the server.
fn beside() -> Context {
    Context::new(Actor::new("ada").expect("a name"), Millis(1_800_000_000_000))
}

/// All messages of a session.
fn messages(house: &House, session: &str) -> Vec<Value> {
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    listed.as_array().expect("a list").clone()
}

/// A prompt of one text.
fn said(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// What the sessions of the server do.
fn is_idle(house: &House, session: &str) -> bool {
    let store = house.engine().store();
    let status = store.read(&beside(), |r| r.status(&named(session))).expect("read");
    status == turnstone_core::model::Status::Idle
}

/// The prompts of a session that wait.
fn inbox(house: &House, session: &str) -> Vec<String> {
    let found = house.engine().store().read(&beside(), |r| r.inbox(&named(session)));
    found.expect("read").iter().map(|one| one.message.to_string()).collect()
}

/// Waits until the inbox of a session has a prompt.
fn waiting(house: &House, session: &str) -> String {
    for _ in 0..1200 {
        if let Some(first) = inbox(house, session).into_iter().next() {
            return first;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no prompt came into the inbox of {session}");
}

/// Where a session stands.
fn seq(house: &House, session: &str) -> i64 {
    house.engine().store().read(&beside(), |r| r.session_seq(&named(session))).expect("read").0
}
