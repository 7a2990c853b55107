//! A turn driven over HTTP while the real `turnstone serve` is killed between any two calls: what was
//! answered is true afterwards, a repeated request is done once, and the work is taken back exactly.

#[path = "../../../server/tests/support/client.rs"]
#[expect(dead_code, reason = "the client of the server's own tests, used for what is needed here")]
mod client;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use client::Client;

/// `turnstone serve`, until it is killed.
struct Served {
    child: Child,
    client: Client,
}

impl Served {
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
        let client = Client::new(url.parse().expect("an address"));
        Self { child, client }
    }

    /// SIGKILL: nothing is flushed, nobody is told.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

/// A project, and what the driver knows of its work.
struct Story {
    dir: tempfile::TempDir,
    session: String,
    turn: String,
    lease: String,
    message: String,
    part: String,
}

/// One call of the story: what is asked, and what the driver does to files before it.
type Call = (&'static str, fn(&Story) -> (String, Value), fn(&Path));

fn nothing(_: &Path) {}

fn tool(story: &Story, touches: &Value) -> Value {
    json!({"messageID": story.message, "callID": "c", "tool": "t", "input": {},
        "touches": touches})
}

fn in_turn(story: &Story, what: &str) -> String {
    format!("/turnstone/session/{}/turn/{}/{what}", story.session, story.turn)
}

const CALLS: &[Call] = &[
    ("session", |_| ("/session".to_owned(), json!({ "title": "T" })), nothing),
    (
        "turn",
        |story| {
            let prompt = json!({"agent": "build", "model": {"providerID": "p", "modelID": "m"},
                "parts": [{"type": "text", "text": "go"}]});
            let path = format!("/turnstone/session/{}/turn", story.session);
            (path, json!({ "prompt": prompt }))
        },
        nothing,
    ),
    (
        "step",
        |story| {
            let body = json!({"providerID": "p", "modelID": "m", "agent": "build"});
            (in_turn(story, "step"), body)
        },
        nothing,
    ),
    ("tool", |story| (in_turn(story, "tool"), tool(story, &json!({ "paths": ["a"] }))), nothing),
    (
        "tool end",
        |story| {
            let path = in_turn(story, &format!("tool/{}/end", story.part));
            (path, json!({ "output": "" }))
        },
        |work| fs_err::write(work.join("a"), "by the turn").expect("written"),
    ),
    ("tool", |story| (in_turn(story, "tool"), tool(story, &json!("anything"))), nothing),
    (
        "tool end",
        |story| {
            let path = in_turn(story, &format!("tool/{}/end", story.part));
            (path, json!({ "output": "" }))
        },
        |work| fs_err::write(work.join("b"), "by its shell").expect("written"),
    ),
    (
        "step end",
        |story| {
            let path = in_turn(story, &format!("step/{}/end", story.message));
            (path, json!({ "reason": "stop" }))
        },
        nothing,
    ),
    ("end", |story| (in_turn(story, "end"), json!({ "outcome": "completed" })), nothing),
    ("undo", |story| (format!("/turnstone/session/{}/undo", story.session), json!({})), nothing),
    ("redo", |story| (format!("/turnstone/session/{}/redo", story.session), json!({})), nothing),
];

impl Story {
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

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn file(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.work().join(name)).ok()
    }

    /// Makes call `number` under a key of its own.
    fn call(&self, served: &Served, number: usize) -> client::Answer {
        let (path, body) = (CALLS[number].1)(self);
        let keyed = served.client.with("idempotency-key", &format!("call-{number}"));
        keyed.with("x-turnstone-lease", &self.lease).post(&path, &body)
    }

    /// Remembers what an answer names.
    fn learn(&mut self, number: usize, answer: &Value) {
        let text = |key: &str| answer[key].as_str().map(str::to_owned).unwrap_or_default();
        match CALLS[number].0 {
            "session" => self.session = text("id"),
            "turn" => (self.turn, self.lease) = (text("turn"), text("lease")),
            "step" => self.message = text("messageID"),
            "tool" => self.part = text("partID"),
            _ => {}
        }
    }

    /// The turns of the timeline with their states.
    fn states(&self, served: &Served) -> Vec<String> {
        let path = format!("/turnstone/session/{}/timeline", self.session);
        let line = served.client.get(&path).expect(200);
        let turns = line.as_array().expect("a list").iter().filter(|it| it["type"] == "turn");
        turns.map(|it| it["state"].as_str().expect("a state").to_owned()).collect()
    }
}

/// Makes the calls up to `last`, kills the server, and looks at what is left.
fn killed_after(last: usize) {
    let mut story = Story::new();
    let served = Served::start(story.dir.path());
    let mut answer = Value::Null;
    for (number, call) in CALLS.iter().enumerate().take(last + 1) {
        (call.2)(&story.work());
        answer = story.call(&served, number).expect(200);
        story.learn(number, &answer);
    }
    served.kill();

    let served = Served::start(story.dir.path());
    let name = CALLS[last].0;
    // The reply may have been lost: whoever asks again gets it, and nothing is done twice.
    assert_eq!(story.call(&served, last).expect(200), answer, "{name} again");
    assert_eq!(story.file("theirs").as_deref(), Some("a person's"));
    let is_open = (1..8).contains(&last);
    if is_open {
        // R28: the turn's process died.
        assert_eq!(story.states(&served), ["interrupted"], "after {name}");
        let lost = story.call(&served, last + 1).expect(410);
        assert_eq!(lost["state"], "interrupted", "after {name}");
        // Its driver goes on in a turn of its own.
        let (path, body) = (CALLS[1].1)(&story);
        let begun = served.client.post(&path, &body).expect(200);
        story.learn(1, &begun);
        let end = in_turn(&story, "end");
        let leased = served.client.with("x-turnstone-lease", &story.lease);
        leased.post(&end, &json!({ "outcome": "completed" })).expect(200);
    }
    let done = (story.file("a"), story.file("b"));
    let base = format!("/turnstone/session/{}", story.session);
    if last >= 1 && name != "undo" {
        let all = json!({ "from": first_turn(&served, &base) });
        served.client.post(&format!("{base}/undo"), &all).expect(200);
    }
    assert_eq!((story.file("a"), story.file("b")), (None, None), "undone after {name}");
    if last >= 1 {
        let redo =
            served.client.with("idempotency-key", "last").post(&format!("{base}/redo"), &json!({}));
        redo.expect(200);
        let expected = if name == "undo" {
            (Some("by the turn".to_owned()), Some("by its shell".to_owned()))
        } else {
            done
        };
        assert_eq!((story.file("a"), story.file("b")), expected, "redone after {name}");
    }
    served.kill();
}

fn first_turn(served: &Served, base: &str) -> Value {
    let line = served.client.get(&format!("{base}/timeline")).expect(200);
    line[0]["id"].clone()
}

#[test]
fn killed_between_any_two_calls_what_was_answered_is_true_and_is_done_once() {
    for last in 0..CALLS.len() {
        killed_after(last);
    }
}

/// The calls of one request each, made again and again while the server dies under them: a turn that
/// was undone is undone once, however often its reply was lost.
#[test]
fn killed_while_it_undoes_the_same_request_undoes_it_once() {
    for pause in [0, 1, 2, 4, 8, 16, 32] {
        let mut story = Story::new();
        let mut served = Served::start(story.dir.path());
        for (number, call) in CALLS.iter().enumerate().take(9) {
            (call.2)(&story.work());
            let answer = story.call(&served, number).expect(200);
            story.learn(number, &answer);
        }
        // A second turn, so that undoing twice would show.
        let (path, body) = (CALLS[1].1)(&story);
        let mut second = Story { session: story.session.clone(), ..Story::new() };
        second.learn(1, &served.client.post(&path, &body).expect(200));
        let leased = served.client.with("x-turnstone-lease", &second.lease);
        let answer = leased.post(&in_turn(&second, "step"), &(CALLS[2].1)(&second).1).expect(200);
        second.learn(2, &answer);
        let named = tool(&second, &json!({ "paths": ["a"] }));
        second.learn(3, &leased.post(&in_turn(&second, "tool"), &named).expect(200));
        fs_err::write(story.work().join("a"), "by the second turn").expect("written");
        let end = in_turn(&second, &format!("tool/{}/end", second.part));
        leased.post(&end, &json!({ "output": "" })).expect(200);
        leased.post(&in_turn(&second, "end"), &json!({ "outcome": "completed" })).expect(200);

        let undo = format!("/turnstone/session/{}/undo", story.session);
        let address = served.client.address();
        let asked = std::thread::spawn(move || {
            let keyed = Client::new(address).with("idempotency-key", "undo");
            // The server may die before it answers: then there is no answer to look at.
            drop(std::panic::catch_unwind(|| keyed.post(&undo, &json!({})).status));
        });
        std::thread::sleep(std::time::Duration::from_millis(pause));
        served.kill();
        drop(asked.join());
        served = Served::start(story.dir.path());
        let keyed = served.client.with("idempotency-key", "undo");
        let path = format!("/turnstone/session/{}/undo", story.session);
        let report = keyed.post(&path, &json!({})).expect(200);
        assert_eq!(report["report"]["turns"], json!([second.turn]), "killed after {pause} ms");
        assert_eq!(keyed.post(&path, &json!({})).expect(200), report);
        assert_eq!(story.file("a").as_deref(), Some("by the turn"), "killed after {pause} ms");
        assert_eq!(story.file("b").as_deref(), Some("by its shell"));
        served.kill();
    }
}
