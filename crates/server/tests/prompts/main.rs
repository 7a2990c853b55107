//! Prompts, commands, permissions and questions over real sockets.

mod abort;
mod command_template;
mod file;
mod idempotent_prompts;
mod prompt;
mod prompt_to_answer;
mod queue;
mod recorded;
mod request;
mod runner;

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::ServerFixture;
use turnstone_core::id::SessionId;
use turnstone_core::time::EpochMillis;
use turnstone_store::{Actor, Context};

/// A new session of the project.
fn session(house: &ServerFixture) -> String {
    let made = house.client().post("/session", &json!({})).expect(200);
    made["id"].as_str().expect("an id").to_owned()
}

/// The engine's way to name the same session.
fn named(session: &str) -> SessionId {
    session.parse().expect("a session")
}

/// The same person, working on the data without the server.
fn local_context() -> Context {
    Context::new(Actor::new("ada").expect("a name"), EpochMillis(1_800_000_000_000))
}

/// All messages of a session.
fn messages(house: &ServerFixture, session: &str) -> Vec<Value> {
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    listed.as_array().expect("a list").clone()
}

/// A prompt of one text.
fn text_prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// What the sessions of the server do.
fn is_idle(house: &ServerFixture, session: &str) -> bool {
    let store = house.engine().store();
    let status =
        store.read(&local_context(), |r| r.sessions().status(&named(session))).expect("read");
    status == turnstone_core::model::SessionStatus::Idle
}

/// The prompts of a session that wait.
fn inbox(house: &ServerFixture, session: &str) -> Vec<String> {
    let found =
        house.engine().store().read(&local_context(), |r| r.prompts().waiting(&named(session)));
    found.expect("read").iter().map(|one| one.message.to_string()).collect()
}

/// Waits until the inbox of a session has a prompt.
fn waiting(house: &ServerFixture, session: &str) -> String {
    for _ in 0..1200 {
        if let Some(first) = inbox(house, session).into_iter().next() {
            return first;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no prompt came into the inbox of {session}");
}

/// Where a session stands.
fn seq(house: &ServerFixture, session: &str) -> i64 {
    house
        .engine()
        .store()
        .read(&local_context(), |r| r.sessions().seq(&named(session)))
        .expect("read")
        .0
}
