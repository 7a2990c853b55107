//! Prompts, commands, permissions and questions over real sockets.

mod file;
mod prompt;
mod recorded;
mod request;
mod template;

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

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

/// Whoever works on the data beside the server.
fn beside() -> Context {
    Context::new(Actor::new("beside").expect("a name"), Millis(1_800_000_000_000))
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
