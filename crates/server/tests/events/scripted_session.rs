//! A session that is driven through the engine, step by step.

use serde_json::{Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, PartBody, RequestState, Todo, UserRequest};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Engine, NewSession, Prompt, Turn};
use turnstone_store::{Actor, Context, MaintenanceBudget, MaintenanceLimits, Tx};

use crate::support::{ServerFixture, SseStream};

/// Where the clock of the script begins.
pub(crate) const BEGIN: i64 = 1_794_728_576_000;

pub(crate) fn at(ms: i64) -> Context {
    Context::new(Actor::new("ada").expect("a name"), EpochMillis(BEGIN + ms))
}

/// Compacts the log as far as it goes.
pub(crate) fn compact_log(house: &ServerFixture, at: &Context) {
    let limits = MaintenanceLimits { grace_ms: 0, lag_ms: 0, ..MaintenanceLimits::default() };
    let store = house.engine().store();
    store.maintenance().run_with(at, MaintenanceBudget::unlimited(), &limits).expect("maintained");
}

/// A frame of a stream: its place, if it has one, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReceivedFrame {
    pub(crate) id: Option<String>,
    pub(crate) text: String,
}

impl ReceivedFrame {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    pub(crate) fn kind(&self) -> String {
        let json = self.json();
        let inner = if json["payload"].is_object() { &json["payload"] } else { &json };
        inner["type"].as_str().expect("a type").to_owned()
    }

    /// True for events about the stream itself.
    pub(crate) fn is_own(&self) -> bool {
        self.kind().starts_with("server.")
    }
}

/// The next frame that carries data.
pub(crate) fn frame(stream: &mut SseStream) -> Option<ReceivedFrame> {
    loop {
        let lines = stream.frame()?;
        let find = |name: &str| {
            lines.iter().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
        };
        if let Some(text) = find("data:") {
            return Some(ReceivedFrame { id: find("id:"), text });
        }
    }
}

/// The next `count` frames that are not of the stream itself.
pub(crate) fn frames(stream: &mut SseStream, count: usize) -> Vec<ReceivedFrame> {
    let (mut found, mut quiet) = (Vec::with_capacity(count), 0);
    while found.len() < count {
        let frame = frame(stream).expect("the stream goes on");
        quiet = if frame.kind() == "server.heartbeat" { quiet + 1 } else { 0 };
        assert!(quiet < 4, "nothing comes after {} of {count}", found.len());
        if !frame.is_own() {
            found.push(frame);
        }
    }
    found
}

pub(crate) fn end_of_log(engine: &Engine) -> LogCursor {
    engine.store().read(&at(0), |r| r.log().last_cursor()).expect("read")
}

pub(crate) fn write(
    engine: &Engine,
    ctx: &Context,
    run: impl Fn(&Tx<'_>) -> turnstone_store::Result<()> + Send + 'static,
) {
    engine.store().write(ctx, run).wait().expect("written");
}

/// A session in the project of the house.
pub(crate) fn session(house: &ServerFixture, title: &str) -> SessionId {
    let engine = house.engine();
    let open = engine.projects().open(&at(0), &house.project()).expect("a project");
    let new = NewSession { title: Some(title.to_owned()), ..NewSession::default() };
    let directory = house.project();
    let made =
        engine.projects().create_session_in(&at(0), &open.project.id, &open.root, &directory, &new);
    made.expect("a session").id
}

pub(crate) fn user(session: &SessionId, id: &str) -> Message {
    let body = json!({ "role": "user", "time": { "created": BEGIN }, "agent": "build",
        "model": { "providerID": "fake", "modelID": "fake-1" } });
    message(session, id, body)
}

pub(crate) fn assistant(session: &SessionId, id: &str, parent: &str) -> Message {
    let body = json!({ "role": "assistant", "time": { "created": BEGIN }, "parentID": parent,
        "modelID": "fake-1", "providerID": "fake", "mode": "build", "agent": "build",
        "path": { "cwd": "/p", "root": "/p" }, "cost": 0, "tokens": tokens(0) });
    message(session, id, body)
}

pub(crate) fn message(session: &SessionId, id: &str, body: Value) -> Message {
    let id: MessageId = id.parse().expect("an id");
    Message { id, session: session.clone(), body: serde_json::from_value(body).expect("a message") }
}

pub(crate) fn tokens(n: i64) -> Value {
    json!({ "input": n, "output": n, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

pub(crate) fn part(session: &SessionId, message: &str, id: &str, body: Value) -> Part {
    let (id, message): (PartId, MessageId) =
        (id.parse().expect("an id"), message.parse().expect("an id"));
    Part {
        id,
        session: session.clone(),
        message,
        body: PartBody::parse_lenient(body).expect("a part"),
    }
}

pub(crate) fn begin(engine: &Engine, session: &SessionId, id: &str, text: &str) -> Turn {
    let parts =
        vec![part(session, id, &id.replace("msg", "prt"), json!({ "type": "text", "text": text }))];
    engine.turns().begin(&at(1), Prompt { message: user(session, id), parts }).expect("a turn")
}

/// Writes under the lease of the turn.
pub(crate) fn put(engine: &Engine, turn: &Turn, ms: i64, part: Part) {
    write(engine, &turn.context(&at(ms)), move |tx| tx.messages().put_part(&part).map(drop));
}

/// A session of about `24 * turns` events: texts that stream, steps that cost, tools, lists, requests,
/// an undo, a removed message, an end that is an error.
pub(crate) fn play_session(house: &ServerFixture, title: &str, turns: usize) -> SessionId {
    let engine = house.engine();
    let id = session(house, title);
    for nth in 0..turns {
        play_turn(engine, &id, title, nth);
    }
    let (name, other) = (id.clone(), format!("msg_{title}_0"));
    write(engine, &at(90), move |tx| {
        let mut names = vec![format!("{other}a")];
        names.push(other.clone());
        for name_of in names {
            tx.messages().remove(&name, &name_of.parse().expect("an id"))?;
        }
        tx.sessions()
            .update(&name, |session| {
                session.title.push_str(" at its end");
                Ok(())
            })
            .map(drop)
    });
    id
}

fn play_turn(engine: &Engine, id: &SessionId, title: &str, nth: usize) {
    let (ask, say) = (format!("msg_{title}_{nth}"), format!("msg_{title}_{nth}a"));
    let ms = 10 + nth as i64;
    let turn = begin(engine, id, &ask, "do it");
    let ctx = turn.context(&at(ms));
    let answer = assistant(id, &say, &ask);
    write(engine, &ctx, move |tx| tx.messages().put(&answer).map(drop));
    let text = format!("prt_{title}_{nth}t");
    let open = json!({ "type": "text", "text": "", "time": { "start": BEGIN } });
    put(engine, &turn, ms, part(id, &say, &text, open));
    for word in ["Now ", "I will ", "write: ü€𝄞 \"quoted\"\n", "done."] {
        let part = text.parse().expect("an id");
        engine.turns().steps().append_text(&at(ms), &turn, &part, word).expect("appended");
    }
    let whole = "Now I will write: ü€𝄞 \"quoted\"\ndone.";
    let closed = json!({ "type": "text", "text": whole, "time": { "start": BEGIN, "end": BEGIN } });
    put(engine, &turn, ms, part(id, &say, &text, closed));
    let tool = format!("prt_{title}_{nth}x");
    let call =
        |state: Value| json!({ "type": "tool", "tool": "bash", "callID": "c", "state": state });
    for state in [
        json!({ "status": "pending", "input": {}, "raw": "" }),
        json!({ "status": "running", "input": { "command": "ls" }, "time": { "start": BEGIN } }),
        json!({ "status": "completed", "input": { "command": "ls" }, "output": "x".repeat(6000),
            "title": "ls", "metadata": {}, "time": { "start": BEGIN, "end": BEGIN } }),
    ] {
        put(engine, &turn, ms, part(id, &say, &tool, call(state)));
    }
    ask_and_answer(engine, &turn, title, nth);
    let todos: Vec<Todo> = serde_json::from_value(
        json!([{ "content": format!("{nth}"), "status": "pending", "priority": "low" }]),
    )
    .expect("todos");
    let name = id.clone();
    write(engine, &ctx, move |tx| tx.sessions().set_todos(&name, &todos).map(drop));
    let step =
        json!({ "type": "step-finish", "reason": "stop", "cost": 0.25, "tokens": tokens(7) });
    put(engine, &turn, ms, part(id, &say, &format!("prt_{title}_{nth}f"), step));
    let name = id.clone();
    write(engine, &ctx, move |tx| {
        tx.sessions()
            .update(&name, |session| {
                session.title = format!("after {nth}");
                Ok(())
            })
            .map(drop)
    });
    let outcome = if nth % 3 == 2 { TurnOutcome::Aborted } else { TurnOutcome::Completed };
    engine.turns().end(&at(ms), &turn, outcome, None).expect("ended");
}

fn ask_and_answer(engine: &Engine, turn: &Turn, title: &str, nth: usize) {
    let request: UserRequest = serde_json::from_value(json!({
        "id": format!("per_{title}_{nth}"), "sessionID": turn.session, "state": { "is": "pending" },
        "body": { "kind": "permission", "permission": "bash", "patterns": ["ls"], "always": [] } }))
    .expect("a request");
    let reply: RequestState =
        serde_json::from_value(json!({ "is": "replied", "reply": "once" })).expect("a reply");
    let id = request.id.clone();
    let ctx = turn.context(&at(20));
    write(engine, &ctx, move |tx| tx.requests().add(&request).map(drop));
    write(engine, &ctx, move |tx| tx.requests().resolve(&id, &reply).map(drop));
}
