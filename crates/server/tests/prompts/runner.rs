//! A program that takes prompts from the inbox and answers them, over the native routes only.

use serde_json::{Value, json};

use crate::support::{ServerFixture, TestClient, TurnDriver};

/// A registered runner.
pub(crate) struct TestRunner {
    client: TestClient,
    pub(crate) id: String,
}

impl TestRunner {
    /// Registers for the directory of the house.
    pub(crate) fn attach(house: &ServerFixture) -> Self {
        let client = house.client().clone();
        let made = client.post("/turnstone/runner", &json!({ "name": "scripted" })).expect(200);
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let client = client.with_header("x-turnstone-token", &text(&made["token"]));
        Self { client, id: text(&made["runner"]["id"]) }
    }

    /// The sessions that wait; waits for one as long as a call may.
    pub(crate) fn inbox(&self) -> Vec<String> {
        let path = format!("/turnstone/runner/{}/inbox?wait=20000", self.id);
        let found = self.client.get(&path).expect(200);
        let found = found["sessions"].as_array().expect("a list").clone();
        found.iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
    }

    /// Takes up the next prompt, whichever session it is of.
    pub(crate) fn take(&self) -> TakenPrompt {
        let session = self.inbox().into_iter().next().expect("a prompt came");
        let path = format!("/turnstone/session/{session}/turn");
        let begun = self.client.post(&path, &json!({})).expect(200);
        let driver = TurnDriver::from_response(&self.client, &session, &begun);
        TakenPrompt { session, prompt: begun["prompt"].clone(), driver }
    }

    pub(crate) fn leave(&self) {
        self.client.delete(&format!("/turnstone/runner/{}", self.id)).expect(200);
    }
}

/// A prompt that is being answered.
pub(crate) struct TakenPrompt {
    pub(crate) session: String,
    /// The prompt with its parts.
    pub(crate) prompt: Value,
    pub(crate) driver: TurnDriver,
}

impl TakenPrompt {
    /// The first text of the prompt.
    pub(crate) fn text(&self) -> &str {
        self.prompt["parts"][0]["text"].as_str().expect("a text")
    }

    pub(crate) fn message(&self) -> &str {
        self.prompt["info"]["id"].as_str().expect("an id")
    }

    /// Streams a text or a reasoning into an answer, piece by piece; its part.
    pub(crate) fn stream(&self, answer: &str, kind: &str, pieces: &[&str]) -> Value {
        let body = json!({ "type": kind, "text": "", "time": { "start": 1 } });
        let part = self.driver.post(&format!("step/{answer}/part"), &body).expect(200);
        for piece in pieces {
            self.driver.post("delta", &json!({ "partID": part["id"], "text": piece })).expect(200);
        }
        part
    }

    /// Says that a text is whole.
    pub(crate) fn seal(&self, answer: &str, part: &Value, text: &str) {
        let mut whole = part.clone();
        whole["text"] = text.into();
        whole["time"]["end"] = 2.into();
        self.driver.post(&format!("step/{answer}/part"), &whole).expect(200);
    }

    /// One step with one text, and the end; the answer's id.
    pub(crate) fn answer(&self, words: &str) -> String {
        let answer = self.driver.step();
        let part = self.stream(&answer, "text", &[words]);
        self.seal(&answer, &part, words);
        self.driver.end_step(&answer, "stop");
        self.driver.end();
        answer
    }
}
