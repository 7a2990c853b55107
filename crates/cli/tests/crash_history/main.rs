//! A turn driven over HTTP while the real `turnstone serve` is killed between any two calls: what was
//! answered is true afterwards, a repeated request is done once, and the work is undone exactly.

#[path = "../../../server/tests/support/client.rs"]
#[expect(dead_code, reason = "the client of the server's own tests, used for what is needed here")]
mod client;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use client::TestClient;

/// `turnstone serve`, until it is killed.
struct KillableServer {
    child: Child,
    client: TestClient,
}

impl KillableServer {
    #[expect(clippy::disallowed_methods, reason = "the real program, started as a person does")]
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnstone"))
            .args(["serve", "--port", "0", "--json", "--data"])
            .arg(dir.join("data"))
            .current_dir(dir.join("work"))
            .env("HOME", dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("ready");
        let ready: Value = serde_json::from_str(&line).expect("a ready line");
        let url = ready["url"].as_str().expect("an address").trim_start_matches("http://");
        let client = TestClient::new(url.parse().expect("an address"));
        Self { child, client }
    }

    /// SIGKILL: nothing is flushed and no process is notified.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

/// A project, and what the driver knows of its work.
struct TurnScenario {
    dir: tempfile::TempDir,
    session: String,
    turn: String,
    lease: String,
    message: String,
    part: String,
}

/// One call of the story: what is asked, and what the driver does to files before it.
type ScenarioCall = (&'static str, fn(&TurnScenario) -> (String, Value), fn(&Path));

fn change_nothing(_: &Path) {}

fn tool_body(story: &TurnScenario, touches: &Value) -> Value {
    json!({"messageID": story.message, "callID": "c", "tool": "t", "input": {},
        "touches": touches})
}

fn turn_path(story: &TurnScenario, what: &str) -> String {
    format!("/turnstone/session/{}/turn/{}/{what}", story.session, story.turn)
}

const SCENARIO_CALLS: &[ScenarioCall] = &[
    ("session", |_| ("/session".to_owned(), json!({ "title": "T" })), change_nothing),
    (
        "turn",
        |story| {
            let prompt = json!({"agent": "build", "model": {"providerID": "p", "modelID": "m"},
                "parts": [{"type": "text", "text": "go"}]});
            let path = format!("/turnstone/session/{}/turn", story.session);
            (path, json!({ "prompt": prompt }))
        },
        change_nothing,
    ),
    (
        "step",
        |story| {
            let body = json!({"providerID": "p", "modelID": "m", "agent": "build"});
            (turn_path(story, "step"), body)
        },
        change_nothing,
    ),
    (
        "tool",
        |story| (turn_path(story, "tool"), tool_body(story, &json!({ "paths": ["a"] }))),
        change_nothing,
    ),
    (
        "tool end",
        |story| {
            let path = turn_path(story, &format!("tool/{}/end", story.part));
            (path, json!({ "output": "" }))
        },
        |work| fs_err::write(work.join("a"), "by the turn").expect("written"),
    ),
    (
        "tool",
        |story| (turn_path(story, "tool"), tool_body(story, &json!("anything"))),
        change_nothing,
    ),
    (
        "tool end",
        |story| {
            let path = turn_path(story, &format!("tool/{}/end", story.part));
            (path, json!({ "output": "" }))
        },
        |work| fs_err::write(work.join("b"), "by its shell").expect("written"),
    ),
    (
        "step end",
        |story| {
            let path = turn_path(story, &format!("step/{}/end", story.message));
            (path, json!({ "reason": "stop" }))
        },
        change_nothing,
    ),
    ("end", |story| (turn_path(story, "end"), json!({ "outcome": "completed" })), change_nothing),
    (
        "undo",
        |story| (format!("/turnstone/session/{}/undo", story.session), json!({})),
        change_nothing,
    ),
    (
        "redo",
        |story| (format!("/turnstone/session/{}/redo", story.session), json!({})),
        change_nothing,
    ),
];

impl TurnScenario {
    fn new() -> Self {
        // Short, because a socket's path must be.
        let dir = tempfile::Builder::new().prefix("ts-").tempdir().expect("a directory");
        fs_err::create_dir(dir.path().join("work")).expect("made");
        fs_err::write(dir.path().join("work/theirs"), "a person's").expect("written");
        let empty = String::new;
        Self {
            dir,
            session: empty(),
            turn: empty(),
            lease: empty(),
            message: empty(),
            part: empty(),
        }
    }

    fn project_dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn read_file(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.project_dir().join(name)).ok()
    }

    /// Makes call `number` under a key of its own.
    fn send_call(&self, served: &KillableServer, number: usize) -> client::HttpAnswer {
        let (path, body) = (SCENARIO_CALLS[number].1)(self);
        let keyed = served.client.with_header("idempotency-key", &format!("call-{number}"));
        keyed.with_header("x-turnstone-lease", &self.lease).post(&path, &body)
    }

    /// Remembers what an answer names.
    fn record_ids(&mut self, number: usize, answer: &Value) {
        let text = |key: &str| answer[key].as_str().map(str::to_owned).unwrap_or_default();
        match SCENARIO_CALLS[number].0 {
            "session" => self.session = text("id"),
            "turn" => (self.turn, self.lease) = (text("turn"), text("lease")),
            "step" => self.message = text("messageID"),
            "tool" => self.part = text("partID"),
            _ => {}
        }
    }

    /// The turns of the timeline with their states.
    fn turn_states(&self, served: &KillableServer) -> Vec<String> {
        let path = format!("/turnstone/session/{}/timeline", self.session);
        let line = served.client.get(&path).expect(200);
        let turns = line.as_array().expect("a list").iter().filter(|it| it["type"] == "turn");
        turns.map(|it| it["state"].as_str().expect("a state").to_owned()).collect()
    }
}

/// Makes the calls up to `last`, kills the server, and looks at what is left.
fn check_kill_after(last: usize) {
    let mut story = TurnScenario::new();
    let served = KillableServer::start(story.dir.path());
    let mut answer = Value::Null;
    for (number, call) in SCENARIO_CALLS.iter().enumerate().take(last + 1) {
        (call.2)(&story.project_dir());
        answer = story.send_call(&served, number).expect(200);
        story.record_ids(number, &answer);
    }
    served.kill();

    let served = KillableServer::start(story.dir.path());
    let name = SCENARIO_CALLS[last].0;
    // The reply may have been lost: a client that asks again gets it, and nothing is done twice.
    assert_eq!(story.send_call(&served, last).expect(200), answer, "{name} again");
    assert_eq!(story.read_file("theirs").as_deref(), Some("a person's"));
    let is_open = (1..8).contains(&last);
    if is_open {
        // R28: the turn's process died.
        assert_eq!(story.turn_states(&served), ["interrupted"], "after {name}");
        let lost = story.send_call(&served, last + 1).expect(410);
        assert_eq!(lost["state"], "interrupted", "after {name}");
        // Its driver goes on in a turn of its own.
        let (path, body) = (SCENARIO_CALLS[1].1)(&story);
        let begun = served.client.post(&path, &body).expect(200);
        story.record_ids(1, &begun);
        let end = turn_path(&story, "end");
        let leased = served.client.with_header("x-turnstone-lease", &story.lease);
        leased.post(&end, &json!({ "outcome": "completed" })).expect(200);
    }
    let done = (story.read_file("a"), story.read_file("b"));
    let base = format!("/turnstone/session/{}", story.session);
    if last >= 1 && name != "undo" {
        let all = json!({ "from": first_turn(&served, &base) });
        served.client.post(&format!("{base}/undo"), &all).expect(200);
    }
    assert_eq!((story.read_file("a"), story.read_file("b")), (None, None), "undone after {name}");
    if last >= 1 {
        let redo = served
            .client
            .with_header("idempotency-key", "last")
            .post(&format!("{base}/redo"), &json!({}));
        redo.expect(200);
        let expected = if name == "undo" {
            (Some("by the turn".to_owned()), Some("by its shell".to_owned()))
        } else {
            done
        };
        assert_eq!((story.read_file("a"), story.read_file("b")), expected, "redone after {name}");
    }
    served.kill();
}

fn first_turn(served: &KillableServer, base: &str) -> Value {
    let line = served.client.get(&format!("{base}/timeline")).expect(200);
    line[0]["id"].clone()
}

#[test]
fn kill_between_calls_keeps_answers_true_and_retries_once() {
    for last in 0..SCENARIO_CALLS.len() {
        check_kill_after(last);
    }
}

/// The calls of one request each, made again and again while the server dies under them: a turn that
/// was undone is undone once, however often its reply was lost.
#[test]
fn retried_undo_after_kill_undoes_once() {
    for pause in [0, 1, 2, 4, 8, 16, 32] {
        let mut story = TurnScenario::new();
        let mut served = KillableServer::start(story.dir.path());
        for (number, call) in SCENARIO_CALLS.iter().enumerate().take(9) {
            (call.2)(&story.project_dir());
            let answer = story.send_call(&served, number).expect(200);
            story.record_ids(number, &answer);
        }
        // A second turn, so that undoing twice would show.
        let (path, body) = (SCENARIO_CALLS[1].1)(&story);
        let mut second = TurnScenario { session: story.session.clone(), ..TurnScenario::new() };
        second.record_ids(1, &served.client.post(&path, &body).expect(200));
        let leased = served.client.with_header("x-turnstone-lease", &second.lease);
        let answer =
            leased.post(&turn_path(&second, "step"), &(SCENARIO_CALLS[2].1)(&second).1).expect(200);
        second.record_ids(2, &answer);
        let named = tool_body(&second, &json!({ "paths": ["a"] }));
        second.record_ids(3, &leased.post(&turn_path(&second, "tool"), &named).expect(200));
        fs_err::write(story.project_dir().join("a"), "by the second turn").expect("written");
        let end = turn_path(&second, &format!("tool/{}/end", second.part));
        leased.post(&end, &json!({ "output": "" })).expect(200);
        leased.post(&turn_path(&second, "end"), &json!({ "outcome": "completed" })).expect(200);

        let undo = format!("/turnstone/session/{}/undo", story.session);
        let address = served.client.address();
        let asked = std::thread::spawn(move || {
            let keyed = TestClient::new(address).with_header("idempotency-key", "undo");
            // The server may die before it answers: then there is no answer to look at.
            drop(std::panic::catch_unwind(|| keyed.post(&undo, &json!({})).status));
        });
        std::thread::sleep(std::time::Duration::from_millis(pause));
        served.kill();
        drop(asked.join());
        served = KillableServer::start(story.dir.path());
        let keyed = served.client.with_header("idempotency-key", "undo");
        let path = format!("/turnstone/session/{}/undo", story.session);
        let report = keyed.post(&path, &json!({})).expect(200);
        assert_eq!(report["report"]["turns"], json!([second.turn]), "killed after {pause} ms");
        assert_eq!(keyed.post(&path, &json!({})).expect(200), report);
        assert_eq!(story.read_file("a").as_deref(), Some("by the turn"), "killed after {pause} ms");
        assert_eq!(story.read_file("b").as_deref(), Some("by its shell"));
        served.kill();
    }
}
