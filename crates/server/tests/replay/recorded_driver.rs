//! A runner that says what the model of the recording said, over the native routes.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_core::model::Todo;
use turnstone_core::time::EpochMillis;
use turnstone_store::{Actor, Context};

use crate::id_mapping::IdMapping;
use crate::recorded_sessions::RecordedSessions;
use crate::support::{ServerFixture, TestClient};

/// What a model has streamed of a text that it has not ended.
const SAID: &str = "stream ";

/// A turn that is driven.
pub(crate) struct RecordedDriver<'a> {
    house: &'a ServerFixture,
    names: &'a Mutex<IdMapping>,
    model: &'a RecordedSessions,
    client: TestClient,
    session: String,
    base: String,
}

impl<'a> RecordedDriver<'a> {
    /// Takes up the next prompt of a session; nothing if there is none.
    pub(crate) fn take(
        house: &'a ServerFixture,
        names: &'a Mutex<IdMapping>,
        model: &'a RecordedSessions,
        session: &str,
    ) -> Option<Self> {
        let path = format!("/turnstone/session/{session}/turn");
        let begun = house.client().post(&path, &json!({}));
        // Busy with a prompt that is not the model's, or gone.
        if begun.status != 200 {
            return None;
        }
        let begun = begun.json();
        let base = format!("{path}/{}", begun["turn"].as_str()?);
        // Every step of the recorded server has a snapshot.
        house.wait_until_captured();
        let client = house.client().with_header("x-turnstone-lease", begun["lease"].as_str()?);
        Some(Self { house, names, model, client, session: session.to_owned(), base })
    }

    fn post(&self, what: &str, body: &Value) -> Value {
        self.client.post(&format!("{}/{what}", self.base), body).expect(200)
    }

    /// Recorded values with our names in them.
    fn translate_ids(&self, value: &Value) -> Value {
        let text = self.names.lock().expect("unpoisoned").translate(&value.to_string());
        serde_json::from_str(&text).expect("JSON")
    }

    /// Says all of it and ends the turn, unless somebody stopped it in the recording.
    pub(crate) fn answer(&self, messages: &[Value]) {
        let mut failure = None;
        for message in messages {
            self.step(message);
            failure = message["info"].get("error").cloned();
        }
        let end = match &failure {
            Some(error) if error["name"] == "MessageAbortedError" => return,
            Some(error) => json!({ "outcome": "failed", "error": error }),
            None if messages.is_empty() => json!({ "outcome": "failed" }),
            // An answer that never ended was cut off by somebody.
            None if messages.iter().any(|it| !it["info"]["time"]["completed"].is_number()) => {
                return;
            }
            None => json!({ "outcome": "completed" }),
        };
        self.post("end", &end);
    }

    fn step(&self, message: &Value) {
        let info = &message["info"];
        let body = json!({ "providerID": info["providerID"], "modelID": info["modelID"], "agent": info["agent"] });
        let ours = self.post("step", &body)["messageID"].as_str().expect("an id").to_owned();
        let theirs = info["id"].as_str().expect("an id");
        self.names.lock().expect("unpoisoned").learn(theirs, &ours);
        for part in message["parts"].as_array().expect("parts") {
            match part["type"].as_str().expect("a type") {
                "tool" => {
                    let is_stopped = info["error"]["name"] == "MessageAbortedError";
                    self.tool(&ours, &self.translate_ids(part), is_stopped);
                }
                "step-finish" => {
                    let end = json!({ "reason": part["reason"], "cost": part["cost"], "tokens": part["tokens"] });
                    self.post(&format!("step/{ours}/end"), &end);
                }
                // The server adds these itself.
                "step-start" | "patch" => {}
                _ => self.stream_part(&ours, self.translate_ids(part)),
            }
        }
    }

    /// Streams a text or a thought: empty first, then what it says, then whole.
    fn stream_part(&self, message: &str, mut part: Value) {
        part.as_object_mut().expect("a part").remove("id");
        let path = format!("step/{message}/part");
        let mut open = part.clone();
        open["text"] = json!("");
        if let Some(time) = open["time"].as_object_mut() {
            time.remove("end");
        }
        let begun = self.post(&path, &open);
        let is_open = part["time"].is_object() && part["time"].get("end").is_none();
        // Of what is still being said the recorded server shows nothing.
        let text = if is_open { &json!(SAID) } else { &part["text"] };
        self.post("delta", &json!({ "partID": begun["id"], "text": text }));
        if is_open {
            return;
        }
        part["id"] = begun["id"].clone();
        self.post(&path, &part);
    }

    fn tool(&self, message: &str, part: &Value, is_stopped: bool) {
        let (name, state) = (part["tool"].as_str().expect("a tool"), &part["state"]);
        let file = state["input"]["filePath"].as_str();
        let touches = match (name, file) {
            ("write" | "edit", Some(file)) => json!({ "paths": [file] }),
            ("bash", _) => json!("anything"),
            _ => json!("nothing"),
        };
        let call = part["callID"].as_str().expect("an id");
        let begin = json!({ "messageID": message, "callID": call, "tool": name,
            "input": state["input"], "touches": touches });
        let id = self.post("tool", &begin)["partID"].as_str().expect("an id").to_owned();
        // What still runs when the recording ends was never answered.
        let waits = state["status"] != "running";
        self.await_permission(message, call, name, &state["input"], waits);
        if is_stopped {
            return;
        }
        let end = match state["status"].as_str().expect("a status") {
            "completed" => {
                self.perform_tool(name, &state["input"], state);
                let mut end = json!({ "output": state["output"], "title": state["title"],
                    "metadata": self.translate_ids(&state["metadata"]) });
                end["output"] = self.translate_ids(&end["output"]);
                if let Some(files) = state.get("attachments") {
                    end["attachments"] = files.clone();
                }
                end
            }
            "error" => {
                let mut end = json!({ "error": state["error"] });
                if let Some(metadata) = state.get("metadata") {
                    end["metadata"] = metadata.clone();
                }
                end
            }
            // Somebody stopped it.
            _ => return,
        };
        self.post(&format!("tool/{id}/end"), &end);
    }

    /// Asks as the recorded server does, and waits for the answer.
    fn await_permission(&self, message: &str, call: &str, name: &str, input: &Value, waits: bool) {
        let tool = json!({ "messageID": message, "callID": call });
        let asked = match (name, input["command"].as_str()) {
            ("bash", Some(command)) => {
                let first = command.split(' ').next().unwrap_or_default();
                let ask = json!({ "permission": "bash", "patterns": [command], "always": [format!("{first} *")],
                    "metadata": { "command": command }, "tool": tool, "waits": true });
                self.post("permission", &ask)
            }
            ("question", _) => {
                let ask = json!({ "questions": input["questions"], "tool": tool, "waits": true });
                self.post("question", &ask)
            }
            _ => return,
        };
        let Some(request) = asked["requestID"].as_str().filter(|_| waits) else { return };
        let path = format!("/turnstone/session/{}/request/{request}", self.session);
        for _ in 0..3000 {
            if self.client.get(&path).expect(200)["is"] != "pending" {
                self.post("continue", &json!({}));
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nobody answered {request}");
    }

    /// Does what the tool did.
    fn perform_tool(&self, name: &str, input: &Value, state: &Value) {
        let text = |key: &str| input[key].as_str().unwrap_or_default();
        match name {
            "write" => fs_err::write(text("filePath"), text("content")).expect("written"),
            "edit" => {
                let old = fs_err::read_to_string(text("filePath")).expect("read");
                let new = old.replacen(text("oldString"), text("newString"), 1);
                fs_err::write(text("filePath"), new).expect("written");
            }
            "bash" => shell(&self.house.project(), text("command")),
            "todowrite" => {
                let todos: Vec<Todo> =
                    serde_json::from_value(input["todos"].clone()).expect("todos");
                let session = self.session.parse().expect("an id");
                let ctx = Context::new(
                    Actor::new("ada").expect("a name"),
                    EpochMillis(1_794_728_576_000),
                );
                let write = self
                    .house
                    .engine()
                    .store()
                    .write(&ctx, move |tx| tx.sessions().set_todos(&session, &todos));
                write.wait().expect("written");
            }
            "task" => self.child(state["metadata"]["sessionId"].as_str().unwrap_or_default()),
            _ => {}
        }
    }

    /// A session of a subagent: with what was said in it, or with one turn that cost what it cost.
    pub(crate) fn child(&self, recorded: &str) {
        let Some(seen) = self.model.session(recorded) else { return };
        let mut new =
            json!({ "parentID": self.session, "title": seen["title"], "agent": seen["agent"] });
        for key in ["permission", "model"] {
            if let Some(value) = seen.get(key) {
                new[key] = value.clone();
            }
        }
        let made = self.house.client().post("/session", &new).expect(200);
        let id = made["id"].as_str().expect("an id");
        self.names.lock().expect("unpoisoned").learn(recorded, id);
        let model =
            json!({ "providerID": seen["model"]["providerID"], "modelID": seen["model"]["id"] });
        let known = self.model.first(recorded);
        let text = known.as_ref().and_then(|(asked, _)| asked["parts"][0]["text"].as_str());
        let prompt = json!({ "prompt": { "agent": seen["agent"], "model": model,
            "parts": [{ "type": "text", "text": text.unwrap_or("look") }] } });
        let path = format!("/turnstone/session/{id}/turn");
        let begun = self.house.client().post(&path, &prompt).expect(200);
        let client = self
            .house
            .client()
            .with_header("x-turnstone-lease", begun["lease"].as_str().expect("a lease"));
        let base = format!("{path}/{}", begun["turn"].as_str().expect("a turn"));
        if let Some((_, answers)) = known {
            let session = id.to_owned();
            Self { client, session, base, ..*self }.answer(&answers);
            return;
        }
        let step = json!({ "providerID": model["providerID"], "modelID": model["modelID"], "agent": seen["agent"] });
        let step = client.post(&format!("{base}/step"), &step).expect(200);
        let end = json!({ "reason": "stop", "cost": seen["cost"], "tokens": seen["tokens"] });
        let path = format!("{base}/step/{}/end", step["messageID"].as_str().expect("an id"));
        client.post(&path, &end).expect(200);
        client.post(&format!("{base}/end"), &json!({ "outcome": "completed" })).expect(200);
    }
}

#[expect(clippy::disallowed_methods, reason = "the tool of a recording runs as it did")]
fn shell(directory: &Path, command: &str) {
    let done =
        std::process::Command::new("sh").args(["-c", command]).current_dir(directory).output();
    drop(done.expect("a shell"));
}
