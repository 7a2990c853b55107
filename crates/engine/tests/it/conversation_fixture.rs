//! Conversations with answers and calls, as an agent writes them.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, PartBody};
use turnstone_engine::{Prompt, Turn};
use turnstone_store::MessageOutlineRow;

use crate::engine_fixture::{EngineFixture, ctx};

pub(crate) fn mid(id: &str) -> MessageId {
    format!("msg_{id}").parse().expect("an id")
}

pub(crate) fn pid(id: &str) -> PartId {
    format!("prt_{id}").parse().expect("an id")
}

pub(crate) fn part(session: &SessionId, message: &str, id: &str, body: Value) -> Part {
    let body = PartBody::parse_lenient(body).expect("part body");
    Part { id: pid(id), session: session.clone(), message: mid(message), body }
}

pub(crate) fn user(session: &SessionId, id: &str) -> Message {
    let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let body = serde_json::from_value(body).expect("user");
    Message { id: mid(id), session: session.clone(), body }
}

pub(crate) fn assistant(session: &SessionId, id: &str, parent: &str) -> Message {
    let body = json!({"role": "assistant", "time": {"created": 1, "completed": 2},
        "parentID": mid(parent), "modelID": "m", "providerID": "p", "mode": "build",
        "path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": tokens()});
    let body = serde_json::from_value(body).expect("assistant");
    Message { id: mid(id), session: session.clone(), body }
}

fn tokens() -> Value {
    json!({"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}})
}

impl EngineFixture {
    /// A turn whose prompt has a text; its id is made of `name`, its part's too.
    pub(crate) fn begin_prompted_turn(&self, session: &SessionId, name: &str) -> Turn {
        let text = part(session, name, &format!("{name}0"), json!({"type": "text", "text": name}));
        let prompt = Prompt { message: user(session, name), parts: vec![text] };
        self.engine.turns().begin(&ctx(), prompt).expect("begins")
    }

    /// An answer: a step that begins.
    pub(crate) fn answer(&self, turn: &Turn, name: &str, parent: &str) {
        let message = assistant(&turn.session, name, parent);
        self.write(turn, move |tx| tx.messages().put(&message).map(drop));
        self.add(turn, name, &format!("{name}0"), json!({"type": "step-start"}));
    }

    pub(crate) fn add(&self, turn: &Turn, message: &str, id: &str, body: Value) {
        let part = part(&turn.session, message, id, body);
        self.write(turn, move |tx| tx.messages().put_part(&part).map(drop));
    }

    /// A step that ends, with what it cost.
    pub(crate) fn finish_step(&self, turn: &Turn, message: &str) {
        let body = json!({"type": "step-finish", "reason": "stop", "cost": 1, "tokens": tokens()});
        self.add(turn, message, &format!("{message}9"), body);
    }

    pub(crate) fn write(
        &self,
        turn: &Turn,
        run: impl FnMut(&turnstone_store::Tx<'_>) -> turnstone_store::Result<()> + Send + 'static,
    ) {
        self.engine.store().write(&turn.context(&ctx()), run).wait().expect("written");
    }

    /// A tool call that names the file it writes.
    pub(crate) fn call(
        &self,
        turn: &Turn,
        message: &str,
        id: &str,
        (file, content): (&str, Option<&str>),
    ) {
        let tool =
            |state: Value| json!({"type": "tool", "callID": id, "tool": "edit", "state": state});
        let running = json!({"status": "running", "input": {}, "time": {"start": 1}});
        self.add(turn, message, id, tool(running));
        let paths = [PathBuf::from(file)];
        let call = self
            .engine
            .tool_calls()
            .open_named(&ctx(), turn, Some(&pid(id)), &paths)
            .expect("opens");
        self.put(file, content);
        self.engine.tool_calls().close(&ctx(), turn, &call).expect("closes");
        let done = json!({"status": "completed", "input": {}, "output": "", "title": "",
            "metadata": {}, "time": {"start": 1, "end": 2}});
        self.add(turn, message, id, tool(done));
    }

    /// A whole turn: asked, answered with one call and a text. Ids begin with `name`.
    pub(crate) fn run_turn(&self, session: &SessionId, name: &str, edit: (&str, Option<&str>)) {
        let turn = self.begin_prompted_turn(session, name);
        let answer = format!("{name}a");
        self.answer(&turn, &answer, name);
        self.call(&turn, &answer, &format!("{answer}1"), edit);
        self.add(&turn, &answer, &format!("{answer}2"), json!({"type": "text", "text": "done"}));
        self.finish_step(&turn, &answer);
        self.end(&turn);
    }

    pub(crate) fn outline(&self, session: &SessionId) -> Vec<MessageOutlineRow> {
        self.engine.store().read(&ctx(), |r| r.messages().outline(session)).expect("reads")
    }

    /// The messages people see, without their prefix.
    pub(crate) fn messages(&self, session: &SessionId) -> Vec<String> {
        let name =
            |it: &MessageOutlineRow| it.message.to_string().trim_start_matches("msg_").to_owned();
        self.outline(session).iter().map(name).collect()
    }

    /// The head: message, or message and part.
    pub(crate) fn head(&self, session: &SessionId) -> Option<(String, Option<String>)> {
        let head =
            self.engine.store().read(&ctx(), |r| r.sessions().head(session)).expect("reads")?;
        let name = |text: &str| text[4..].to_owned();
        Some((name(head.message.as_str()), head.part.map(|part| name(part.as_str()))))
    }

    pub(crate) fn assert_consistent(&self) {
        let wrong = self.engine.store().maintenance().verify_projections().expect("replays");
        assert_eq!(wrong, [], "the log alone rebuilds the tables");
    }
}
