//! A server on which everything has happened that clients read of: a turn with a tool, a list of things to do,
//! a fork, a session that asks.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_core::model::Todo;
use turnstone_core::time::EpochMillis;
use turnstone_store::{Actor, Context};

use crate::replay;
use crate::support::{ServerFixture, TestClient, TurnDriver};

pub(crate) struct PreparedServer {
    house: ServerFixture,
    session: String,
    message: String,
    project: String,
    /// What was answered on the way, by method and path.
    answers: Mutex<Vec<(&'static str, Value)>>,
    /// The session that asks, while it does.
    _asks: Option<TurnDriver>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}

impl PreparedServer {
    pub(crate) fn new() -> Self {
        let house = replay::house();
        let project = text(&house.client().get("/project/current").expect(200)["id"]);
        let nothing = String::new;
        let mut scenario = Self {
            house,
            session: nothing(),
            message: nothing(),
            project,
            answers: Mutex::default(),
            _asks: None,
        };
        scenario.session = scenario.work();
        scenario.revert();
        scenario.branch();
        scenario._asks = Some(scenario.add_requests());
        scenario
    }

    pub(crate) fn client(&self) -> &TestClient {
        self.house.client()
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// What was answered to requests of that method and path.
    pub(crate) fn answers(&self, label: &str) -> Vec<Value> {
        let answers = self.answers.lock().expect("unpoisoned");
        answers.iter().filter(|(known, _)| *known == label).map(|(_, it)| it.clone()).collect()
    }

    /// The path with names of things that are there.
    pub(crate) fn filled(&self, path: &str) -> String {
        let path = path.replace("{sessionID}", &self.session);
        let path = path.replace("{messageID}", &self.message);
        path.replace("{projectID}", &self.project).replace("{name}", "none")
    }

    /// A query of these names.
    pub(crate) fn query(&self, names: &[&str]) -> String {
        let here = self.house.project().to_string_lossy().replace('/', "%2F");
        let value = |name: &&str| {
            let value = match *name {
                "directory" | "location[directory]" => here.as_str(),
                "limit" => "100",
                "roots" => "true",
                "order" => "desc",
                "scope" => "project",
                "query" => "main",
                "start" => "1",
                "path" => "",
                other => panic!("what is {other}?"),
            };
            format!("{name}={value}")
        };
        let words: Vec<String> = names.iter().map(value).collect();
        if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) }
    }

    fn store_answer(&self, label: &'static str, answer: Value) -> Value {
        self.answers.lock().expect("unpoisoned").push((label, answer.clone()));
        answer
    }

    fn create(&self, title: &str) -> String {
        let new = json!({ "title": title, "agent": "build",
            "model": { "providerID": "fake", "id": "fake-1" } });
        let path = format!("/session{}", self.query(&["directory"]));
        let made = self.client().post(&path, &new).expect(200);
        text(&self.store_answer("POST /session", made)["id"])
    }

    /// A prompt whose turn thinks, writes a file, says something and notes what is to do.
    fn work(&mut self) -> String {
        let named = json!({ "name": "scene" });
        self.client().post("/turnstone/runner", &named).expect(200);
        let session = self.create("work");
        let prompt = json!({ "agent": "build", "model": { "providerID": "fake", "modelID": "fake-1" },
            "parts": [{ "type": "text", "text": "write it" }] });
        let path = format!("/session/{session}/message");
        let answer = std::thread::scope(|scope| {
            let asked = scope.spawn(|| self.client().post(&path, &prompt).expect(200));
            self.answer(&session);
            asked.join().expect("asked")
        });
        self.message = text(&answer["info"]["id"]);
        self.store_answer("POST /session/{sessionID}/message", answer);
        let todo = json!([{ "content": "look", "status": "pending", "priority": "high" }]);
        let todo: Vec<Todo> = serde_json::from_value(todo).expect("todos");
        let id = session.parse().expect("an id");
        let ctx = Context::new(Actor::new("ada").expect("a name"), EpochMillis(1_794_728_576_000));
        let store = self.house.engine().store();
        let write = store.write(&ctx, move |tx| tx.sessions().set_todos(&id, &todo));
        write.wait().expect("written");
        session
    }

    /// Takes up the prompt of a session and answers it.
    fn answer(&self, session: &str) {
        let driver = self.take(session);
        let step = driver.step();
        let say = |kind: &str, text: &str| {
            let time = json!({ "start": 1_794_728_576_000_i64, "end": 1_794_728_576_001_i64 });
            let part = json!({ "type": kind, "text": text, "time": time });
            driver.post(&format!("step/{step}/part"), &part).expect(200);
        };
        say("reasoning", "hm");
        say("text", "so be it");
        let file = self.house.project().join("a.txt");
        let touches = json!({ "paths": [file] });
        driver.tool(&step, &touches, || self.house.write_file("a.txt", "HELLO\n"));
        let tokens = json!({ "total": 3, "input": 1, "output": 2, "reasoning": 0,
            "cache": { "read": 0, "write": 0 } });
        let end = json!({ "reason": "stop", "cost": 0.5, "tokens": tokens });
        driver.post(&format!("step/{step}/end"), &end).expect(200);
        driver.end();
    }

    fn take(&self, session: &str) -> TurnDriver {
        for _ in 0..1000 {
            let path = format!("/turnstone/session/{session}/turn");
            let begun = self.client().post(&path, &json!({})).expect(200);
            if begun["turn"].is_string() {
                self.house.wait_until_captured();
                return TurnDriver::from_response(self.client(), session, &begun);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no prompt waits in {session}");
    }

    fn revert(&self) {
        let base = format!("/session/{}", self.session);
        let listed = self.client().get(&format!("{base}/message")).expect(200);
        let point = json!({ "messageID": listed[0]["info"]["id"] });
        let back = self.client().post(&format!("{base}/revert"), &point).expect(200);
        self.store_answer("POST /session/{sessionID}/revert", back);
        let again = self.client().post(&format!("{base}/unrevert"), &json!({})).expect(200);
        self.store_answer("POST /session/{sessionID}/unrevert", again);
    }

    fn branch(&self) {
        let base = format!("/session/{}", self.session);
        let fork = self.client().post(&format!("{base}/fork"), &json!({})).expect(200);
        let fork = self.store_answer("POST /session/{sessionID}/fork", fork);
        let path = format!("/session/{}", text(&fork["id"]));
        let named = self.client().patch(&path, &json!({ "title": "other" })).expect(200);
        self.store_answer("PATCH /session/{sessionID}", named);
        let ended = self.client().post(&format!("{path}/abort"), &json!({})).expect(200);
        self.store_answer("POST /session/{sessionID}/abort", ended);
        let gone = self.client().delete(&path).expect(200);
        self.store_answer("DELETE /session/{sessionID}", gone);
        let child = json!({ "parentID": self.session, "title": "child" });
        self.client().post("/session", &child).expect(200);
    }

    /// A session that waits for a permission and for answers to a question.
    fn add_requests(&self) -> TurnDriver {
        let session = self.create("asks");
        let driver = TurnDriver::begin(self.client(), &session, "may I?");
        let step = driver.step();
        let call = json!({ "messageID": step, "callID": "c", "tool": "bash",
            "input": { "command": "rm a" }, "touches": "anything" });
        driver.post("tool", &call).expect(200);
        let tool = json!({ "messageID": step, "callID": "c" });
        for nth in 0..2 {
            let ask = json!({ "permission": "bash", "patterns": [format!("rm {nth}")], "always": ["rm *"],
                "metadata": { "command": "rm" }, "tool": tool, "waits": true });
            driver.post("permission", &ask).expect(200);
            let question = json!({ "question": "which?", "header": "which",
                "options": [{ "label": "A", "description": "a" }] });
            let ask = json!({ "questions": [question], "tool": tool, "waits": true });
            driver.post("question", &ask).expect(200);
        }
        // One of each is answered, one is left for the lists.
        for (path, label, answer) in [
            ("/permission", "POST /permission/{requestID}/reply", json!({ "reply": "once" })),
            ("/question", "POST /question/{requestID}/reply", json!({ "answers": [["A"]] })),
        ] {
            let listed = self.client().get(path).expect(200);
            assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
            let path = format!("{path}/{}/reply", text(&listed[0]["id"]));
            let answered = self.client().post(&path, &answer).expect(200);
            self.store_answer(label, answered);
        }
        driver
    }
}
