//! Sessions with turns that really change files, made through the engine behind the server.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Message, Part};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Prompt, StepEnd, ToolFileAccess, Turn};
use turnstone_store::{Actor, Context};

use crate::support::ServerFixture;

/// A moment like any other.
pub(crate) const NOW: EpochMillis = EpochMillis(1_794_728_530_000);

pub(crate) fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("a name"), NOW).with_role(CallerRole::Person)
}

/// A new session of the project, made over HTTP.
pub(crate) fn session(house: &ServerFixture, title: &str) -> String {
    let made = house.client().post("/session", &json!({ "title": title })).expect(200);
    made["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn id(session: &str) -> SessionId {
    session.parse().expect("an id")
}

fn message(session: &SessionId, name: &str, body: Value) -> Message {
    let body = serde_json::from_value(body).expect("a body");
    Message { id: name.parse().expect("an id"), session: session.clone(), body }
}

fn part(message: &Message, name: &str, body: Value) -> Part {
    Part {
        id: name.parse().expect("an id"),
        session: message.session.clone(),
        message: message.id.clone(),
        body: serde_json::from_value(body).expect("a part"),
    }
}

/// The prompt `msg_NAME` with one text.
pub(crate) fn prompt(session: &str, name: &str, text: &str) -> Prompt {
    let user = json!({"role": "user", "time": {"created": NOW.0}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let message = message(&id(session), &format!("msg_{name}"), user);
    let text = part(&message, &format!("prt_{name}"), json!({"type": "text", "text": text}));
    Prompt { message, parts: vec![text] }
}

pub(crate) fn begin(house: &ServerFixture, session: &str, name: &str) -> Turn {
    house.engine().turns().begin(&ctx(), prompt(session, name, name)).expect("begins")
}

pub(crate) fn end(house: &ServerFixture, turn: &Turn) {
    house.engine().turns().end(&ctx(), turn, TurnOutcome::Completed, None).expect("ends");
}

/// The answer `msg_NAMEa`, whose tool `prt_NAMEt` writes `files` after it has named them.
pub(crate) fn step(house: &ServerFixture, turn: &Turn, name: &str, files: &[(&str, &str)]) {
    let engine = house.engine();
    let body = json!({"role": "assistant", "time": {"created": NOW.0},
        "parentID": format!("msg_{name}"), "modelID": "m", "providerID": "p", "mode": "build",
        "agent": "build", "path": {"cwd": "/", "root": "/"}, "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    let answer = message(&turn.session, &format!("msg_{name}a"), body);
    let step = engine.turns().steps().begin(&ctx(), turn, answer.clone()).expect("begins");
    let text = part(&answer, &format!("prt_{name}s"), json!({"type": "text", "text": "writing"}));
    engine
        .store()
        .write(&turn.context(&ctx()), move |tx| tx.messages().put_part(&text))
        .wait()
        .expect("put");
    let state = json!({"status": "running", "input": {}, "time": {"start": 1}});
    let body = json!({"type": "tool", "callID": name, "tool": "write", "state": state});
    let tool = part(&answer, &format!("prt_{name}t"), body);
    let touch = ToolFileAccess::Named(files.iter().map(|(file, _)| PathBuf::from(file)).collect());
    let run = engine.turns().steps().begin_tool(&ctx(), turn, &tool, &touch).expect("announced");
    for (file, content) in files {
        house.write_file(file, content);
    }
    let state = json!({"status": "completed", "input": {}, "output": "", "title": "", "metadata": {},
        "time": {"start": 1, "end": 2}});
    let state = serde_json::from_value(state).expect("a state");
    engine.turns().steps().end_tool(&ctx(), turn, run, state).expect("over");
    let done = StepEnd {
        reason: "stop".into(),
        cost: 0.into(),
        tokens: Default::default(),
        structured: None,
    };
    engine.turns().steps().end(&ctx(), turn, &step, &done).expect("ends");
}

/// A turn of one step.
pub(crate) fn turn(
    house: &ServerFixture,
    session: &str,
    name: &str,
    files: &[(&str, &str)],
) -> Turn {
    let turn = begin(house, session, name);
    step(house, &turn, name, files);
    end(house, &turn);
    turn
}

/// A file of the project; nothing if it is not there.
pub(crate) fn read(house: &ServerFixture, name: &str) -> Option<String> {
    fs_err::read_to_string(house.project().join(name)).ok()
}

/// Where the session stands.
pub(crate) fn seq(house: &ServerFixture, session: &str) -> i64 {
    house.engine().store().read(&ctx(), |r| r.sessions().seq(&id(session))).expect("reads").0
}
