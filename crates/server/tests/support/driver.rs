//! A program outside of the server that drives turns, and knows nothing but HTTP.

use serde_json::{Value, json};

use super::client::{HttpAnswer, TestClient};

/// A program that runs turns of one session.
pub(crate) struct TurnDriver {
    client: TestClient,
    base: String,
    pub(crate) turn: String,
    pub(crate) lease: String,
}

impl TurnDriver {
    /// Takes up the next prompt of the inbox.
    pub(crate) fn take(client: &TestClient, session: &str) -> Self {
        let begun = client.post(&format!("/turnstone/session/{session}/turn"), &json!({}));
        Self::from_response(client, session, &begun.expect(200))
    }

    /// Begins a turn with a prompt of its own.
    pub(crate) fn begin(client: &TestClient, session: &str, text: &str) -> Self {
        let body = json!({"prompt": {"agent": "build",
            "model": {"providerID": "p", "modelID": "m"},
            "parts": [{"type": "text", "text": text}]}});
        let begun = client.post(&format!("/turnstone/session/{session}/turn"), &body);
        Self::from_response(client, session, &begun.expect(200))
    }

    pub(crate) fn from_response(client: &TestClient, session: &str, begun: &Value) -> Self {
        let text = |key: &str| begun[key].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        let (turn, lease) = (text("turn"), text("lease"));
        let base = format!("/turnstone/session/{session}/turn/{turn}");
        Self { client: client.with_header("x-turnstone-lease", &lease), base, turn, lease }
    }

    /// The path of the turn.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn post(&self, what: &str, body: &Value) -> HttpAnswer {
        self.client.post(&format!("{}/{what}", self.base), body)
    }

    pub(crate) fn send(&self, method: &str, what: &str, body: &Value) -> HttpAnswer {
        let bytes = (!body.is_null()).then(|| body.to_string().into_bytes());
        self.client.send(method, &format!("{}/{what}", self.base), bytes.as_deref())
    }

    /// The same driver with one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let (base, turn, lease) = (self.base.clone(), self.turn.clone(), self.lease.clone());
        Self { client: self.client.with_header(name, value), base, turn, lease }
    }

    pub(crate) fn step(&self) -> String {
        let body = json!({"providerID": "p", "modelID": "m", "agent": "build"});
        let begun = self.post("step", &body).expect(200);
        begun["messageID"].as_str().expect("an id").to_owned()
    }

    /// A tool: announced, done, ended.
    pub(crate) fn tool(&self, message: &str, touches: &Value, work: impl FnOnce()) -> Value {
        let body = json!({"messageID": message, "callID": "c", "tool": "t", "input": {"a": 1},
            "touches": touches});
        let part = self.post("tool", &body).expect(200)["partID"].clone();
        work();
        let path = format!("tool/{}/end", part.as_str().expect("an id"));
        self.post(&path, &json!({ "output": "done", "title": "a tool" })).expect(200)
    }

    pub(crate) fn end_step(&self, message: &str, reason: &str) -> Value {
        let body = json!({"reason": reason, "cost": 0.5, "tokens": {"input": 10, "output": 2,
            "reasoning": 0, "cache": {"read": 0, "write": 0}}});
        self.post(&format!("step/{message}/end"), &body).expect(200)
    }

    pub(crate) fn end(&self) -> Value {
        self.post("end", &json!({ "outcome": "completed" })).expect(200)
    }
}
