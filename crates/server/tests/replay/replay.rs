//! Asks what was asked and compares what is answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::{Comparison, Difference};
use crate::crash;
use crate::event_comparison;
use crate::id_mapping::IdMapping;
use crate::known_differences::{self, TABLE, check_differences, is_pattern_match};
use crate::recorded_clients;
use crate::recorded_driver::RecordedDriver;
use crate::recorded_sessions::RecordedSessions;
use crate::recording::{RecordedPair, pairs};
use crate::stream_reader;
use crate::support::{HttpAnswer, ServerFixture, TestClient, git};
use turnstone_server::Credentials;

/// The configuration of the recorded server.
const CONFIG: &str = r#"{ "$schema": "https://opencode.ai/config.json", "model": "fake/fake-1",
  "small_model": "fake/fake-1", "autoupdate": false, "share": "manual",
  "permission": { "edit": "allow", "bash": { "*": "allow", "rm *": "ask" } },
  "provider": { "fake": { "name": "Fake", "npm": "@ai-sdk/openai-compatible",
    "options": { "apiKey": "sk-fake", "baseURL": "http://127.0.0.1:9901/v1" },
    "models": { "fake-1": { "name": "Fake One", "reasoning": true, "tool_call": true,
      "cost": { "input": 1, "output": 2, "cache_read": 0.1, "cache_write": 0.2 },
      "limit": { "context": 100000, "output": 8000 } } } } } }
"#;

/// The project as it was when a recording began.
pub(crate) fn house() -> ServerFixture {
    let house = ServerFixture::new();
    house.write_file(".gitignore", "*.log\n");
    house.write_file("a.txt", "hello\n");
    house.write_file("opencode.json", CONFIG);
    house.write_file("src/main.rs", "fn main() {}\n");
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "one"]] {
        git(&house.project(), words);
    }
    house.trust_project();
    house
}

/// Who asks again.
struct RecordingReplay<'a> {
    house: &'a ServerFixture,
    names: &'a Mutex<IdMapping>,
    model: &'a RecordedSessions,
    /// How many prompts were answered as far as the model did.
    said: AtomicUsize,
}

impl<'a> RecordingReplay<'a> {
    fn new(
        house: &'a ServerFixture,
        names: &'a Mutex<IdMapping>,
        model: &'a RecordedSessions,
    ) -> Self {
        Self { house, names, model, said: AtomicUsize::new(0) }
    }

    /// Waits until the model has said more than `said` answers, or waits for somebody itself.
    fn wait_for_model(&self, said: usize) {
        let is_asking = |path| self.house.client().get(path).expect(200) != json!([]);
        for _ in 0..1000 {
            if self.said.load(Ordering::Relaxed) > said
                || is_asking("/permission")
                || is_asking("/question")
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the model says nothing");
    }

    /// True if a model answers it.
    fn is_prompt(pair: &RecordedPair) -> bool {
        let path = pair.path.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let noted = pair.body.as_ref().is_some_and(|body| body["noReply"] == true);
        let words: &[&str] = if path.starts_with("/api/session/") {
            &["prompt"]
        } else {
            &["message", "prompt_async", "command", "init", "summarize"]
        };
        pair.method == "POST" && pair.session().is_some() && words.contains(&last) && !noted
    }

    fn client(&self, pair: &RecordedPair) -> TestClient {
        let names = self.names.lock().expect("unpoisoned");
        let with = |client: TestClient, (name, value): &(String, String)| {
            client.with_header(name, &names.translate(value))
        };
        pair.headers.iter().fold(self.house.client().clone(), with)
    }

    /// The path with our names, moments and requests in it.
    fn path(&self, pair: &RecordedPair) -> String {
        let unknown = pair.path.split('/').find(|word| {
            let is_request = word.starts_with("per_") || word.starts_with("que_");
            is_request
                && word.len() > 20
                && self.names.lock().expect("unpoisoned").find(word).is_none()
        });
        if let Some(unknown) = unknown {
            let pending =
                self.pending(if unknown.starts_with("per_") { "/permission" } else { "/question" });
            self.names
                .lock()
                .expect("unpoisoned")
                .learn(unknown, pending[0]["id"].as_str().expect("an id"));
        }
        let names = self.names.lock().expect("unpoisoned");
        let path = names.translate(&pair.path);
        if let Some(path) = stream_reader::numbered(self.house.client(), &path) {
            return path;
        }
        let Some((head, start)) = path.split_once("start=") else { return path };
        let (start, rest) = start.split_once('&').unwrap_or((start, ""));
        let start = start.parse().expect("a moment");
        // Before anything happened it is the same moment.
        format!("{head}start={}&{rest}", names.our_time(start).unwrap_or(start))
    }

    /// What waits for an answer, once something does.
    fn pending(&self, path: &str) -> Value {
        for _ in 0..1000 {
            let listed = self.house.client().get(path).expect(200);
            if listed != json!([]) {
                return listed;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing is asked at {path}");
    }

    fn ask(&self, pair: &RecordedPair) -> HttpAnswer {
        let path = self.path(pair);
        if pair.is_stream() {
            return stream_reader::read(&self.client(pair), &path);
        }
        if ["/permission", "/question"].contains(&path.as_str()) && pair.answer != json!([]) {
            self.pending(&path);
        }
        let body = pair.bytes().map(|text| self.names.lock().expect("unpoisoned").translate(&text));
        self.client(pair).send(&pair.method, &path, body.as_deref().map(str::as_bytes))
    }

    /// Asks, and answers as the model did.
    fn prompt(&self, pair: &RecordedPair) -> HttpAnswer {
        let answers = self.model.answers(pair);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| self.ask(pair));
            loop {
                let is_over = asked.is_finished();
                if let Some(session) = self.session(pair)
                    && let Some(driver) =
                        RecordedDriver::take(self.house, self.names, self.model, &session)
                {
                    self.children(pair, &driver);
                    driver.answer(&answers);
                    self.said.fetch_add(1, Ordering::Relaxed);
                    self.set_title(pair, &session);
                    break;
                }
                if is_over {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            asked.join().expect("asked")
        })
    }

    /// A command may be the task of a subagent, whose session no answer of the model names.
    fn children(&self, pair: &RecordedPair, driver: &RecordedDriver<'_>) {
        if pair.path.ends_with("/command") {
            let made =
                pair.session().map(|it| self.model.children(it, pair.asked)).unwrap_or_default();
            made.iter().for_each(|child| driver.child(child));
        }
    }

    fn session(&self, pair: &RecordedPair) -> Option<String> {
        let names = self.names.lock().expect("unpoisoned");
        names.find(pair.session()?).map(str::to_owned)
    }

    /// Gives the session the title that the model gave it.
    fn set_title(&self, pair: &RecordedPair, session: &str) {
        if let Some(title) = pair.session().and_then(|it| self.model.title(it)) {
            let path = format!("/session/{session}");
            self.house.client().patch(&path, &json!({ "title": title })).expect(200);
        }
    }

    fn compare(&self, pair: &RecordedPair, answer: &HttpAnswer) -> Vec<Difference> {
        let mut names = self.names.lock().expect("unpoisoned");
        let mut comparison =
            Comparison { label: &pair.label, names: &mut names, found: Vec::new() };
        if answer.status != pair.status {
            let ours = format!("{} {}", answer.status, answer.text());
            comparison.differs("status", &pair.status.to_string(), &ours);
            return comparison.found;
        }
        // A cursor first: links hold it.
        let mut reported: Vec<_> = pair.reported.iter().collect();
        reported.sort_by_key(|(name, _)| name != "x-next-cursor");
        for (name, value) in reported {
            let at = format!("header/{name}");
            match (name.as_str(), answer.header(name)) {
                ("x-next-cursor", Some(ours)) => drop(comparison.names.learn(value, ours)),
                (_, Some(ours)) if comparison.names.translate(value) == ours => {}
                (_, ours) => comparison.differs(&at, value, ours.unwrap_or("(none)")),
            }
        }
        if pair.method == "HEAD" {
            return comparison.found;
        }
        let is_json = pair.is_stream() || answer.header("content-type") == Some("application/json");
        let body = if is_json { answer.json() } else { Value::from(answer.text()) };
        comparison.value("body", &pair.answer, &body);
        comparison.found
    }

    fn play(&self, pairs: &[RecordedPair]) -> Vec<Difference> {
        std::thread::scope(|scope| {
            let mut open: Vec<(&RecordedPair, ScopedJoinHandle<'_, HttpAnswer>)> = Vec::new();
            let mut found = Vec::new();
            for (nth, pair) in pairs.iter().enumerate() {
                while let Some(place) = open.iter().position(|(early, _)| early.seq < pair.seq) {
                    let (early, asked) = open.remove(place);
                    found.extend(self.compare(early, &asked.join().expect("asked")));
                }
                if known_differences::SKIPPED
                    .iter()
                    .any(|(label, _)| is_pattern_match(label, &pair.label))
                {
                    continue;
                }
                // Lists are in the order of moments.
                std::thread::sleep(Duration::from_millis(2));
                if pairs[nth + 1..].iter().any(|later| later.seq < pair.seq) {
                    let said = self.said.load(Ordering::Relaxed);
                    open.push((pair, scope.spawn(|| self.prompt(pair))));
                    // What is stopped has begun.
                    if pairs[nth + 1].path.ends_with("/abort") {
                        self.wait_for_model(said);
                    }
                    continue;
                }
                let answer = if Self::is_prompt(pair) { self.prompt(pair) } else { self.ask(pair) };
                found.extend(self.compare(pair, &answer));
            }
            found
        })
    }
}

/// What a recording holds of its streams.
struct RecordedStream<'a> {
    /// What it is called in differences.
    label: &'a str,
    /// Where it was listened.
    path: &'a str,
    reported: &'a str,
    /// What `/api/event` told, where that was recorded.
    api: Option<&'a str>,
}

impl<'a> RecordedStream<'a> {
    const fn of(reported: &'a str) -> Self {
        Self { label: "event", path: "/event", reported, api: None }
    }
}

/// Plays a recording and listens; what differs.
fn play(
    house: &ServerFixture,
    names: &Mutex<IdMapping>,
    text: &str,
    want: &RecordedStream<'_>,
) -> Vec<Difference> {
    let listen = |path| {
        let stream = house.client().stream(path);
        std::thread::spawn(move || event_comparison::received_events(stream))
    };
    let (hears, hears_api) = (listen(want.path), listen("/api/event"));
    let pairs = pairs(text);
    let mut found = ask_again(house, names, &RecordedSessions::of(&pairs), &pairs);
    let end = json!({ "message": event_comparison::END, "variant": "info" });
    house.client().post("/tui/show-toast", &end).expect(200);
    let (received, received_api) = (hears.join().expect("heard"), hears_api.join().expect("heard"));
    let names = names.lock().expect("unpoisoned");
    found.extend(event_comparison::compare(want.label, want.reported, &received, &names));
    if let Some(api) = want.api {
        found.extend(stream_reader::until_status(api, &received_api, &names));
    }
    found
}

/// Plays a recording; what is answered otherwise.
pub(crate) fn ask_again(
    house: &ServerFixture,
    names: &Mutex<IdMapping>,
    model: &RecordedSessions,
    pairs: &[RecordedPair],
) -> Vec<Difference> {
    let runner =
        house.client().post("/turnstone/runner", &json!({ "name": "recorded" })).expect(200);
    let inbox =
        format!("/turnstone/runner/{}/inbox", runner["runner"]["id"].as_str().expect("an id"));
    let (publish, reported) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // A runner must be heard of.
        let beat = move || {
            while reported.recv_timeout(Duration::from_secs(5))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                house.client().get(&inbox).expect(200);
            }
        };
        scope.spawn(beat);
        let found = RecordingReplay::new(house, names, model).play(pairs);
        drop(publish);
        found
    })
}

/// What a server with a password answers otherwise.
fn replay_with_password() -> Vec<Difference> {
    let house = ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "secret".to_owned());
        settings.credentials = Some(Credentials { user, password });
        settings.origins = vec!["https://my.example".to_owned()];
    });
    let names = Mutex::new(IdMapping::new(&house));
    let pairs = pairs(include_str!("../golden/auth.jsonl"));
    RecordingReplay::new(&house, &names, &RecordedSessions::default()).play(&pairs)
}

/// What is answered otherwise to requests that were recorded on a server of their own.
fn replay_fresh(text: &str) -> Vec<Difference> {
    let house = house();
    let names = Mutex::new(IdMapping::new(&house));
    let pairs = pairs(text);
    ask_again(&house, &names, &RecordedSessions::of(&pairs), &pairs)
}

/// What is answered and told otherwise to a real client.
fn replay_with_stream(label: &str, path: &str, text: &str, reported: &str) -> Vec<Difference> {
    let house = house();
    let names = Mutex::new(IdMapping::new(&house));
    play(&house, &names, text, &RecordedStream { label, path, reported, api: None })
}

#[test]
fn recordings_replay_with_only_known_differences() {
    let mut found = Vec::new();
    let house = house();
    let names = Mutex::new(IdMapping::new(&house));
    let received = RecordedStream {
        api: Some(include_str!("../golden/all-routes-api-events.jsonl")),
        ..RecordedStream::of(include_str!("../golden/all-routes-events.jsonl"))
    };
    found.extend(play(&house, &names, include_str!("../golden/all-routes.jsonl"), &received));
    let received = RecordedStream {
        api: Some(include_str!("../golden/prompt-kinds-api-events.jsonl")),
        ..RecordedStream::of(include_str!("../golden/prompt-kinds-events.jsonl"))
    };
    found.extend(play(&house, &names, include_str!("../golden/prompt-kinds.jsonl"), &received));
    drop(house);
    let fresh = self::house();
    let names = Mutex::new(IdMapping::new(&fresh));
    let received = RecordedStream::of(include_str!("../golden/session-lists-events.jsonl"));
    found.extend(play(&fresh, &names, include_str!("../golden/session-lists.jsonl"), &received));
    found.extend(stream_reader::openings(&fresh));
    found.extend(replay_with_password());
    found.extend(replay_fresh(include_str!("../golden/share.jsonl")));
    found.extend(replay_with_stream(
        "tui event",
        "/global/event",
        include_str!("../golden/client-tui.jsonl"),
        include_str!("../golden/client-tui-events.jsonl"),
    ));
    found.extend(replay_with_stream(
        "web event",
        "/global/event",
        include_str!("../golden/client-web.jsonl"),
        include_str!("../golden/client-web-events.jsonl"),
    ));
    found.extend(replay_with_stream(
        "run event",
        "/event",
        include_str!("../golden/client-run.jsonl"),
        include_str!("../golden/client-run-events.jsonl"),
    ));
    found.extend(crash::play());
    assert!(known_differences::SKIPPED.iter().all(|(_, why)| !why.is_empty()));
    check_differences(&found, TABLE);
}

#[test]
fn every_known_difference_is_documented() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let read = |name: &str| fs_err::read_to_string(format!("{root}/{name}")).expect("read");
    let pages = read("http.md") + &read("events.md");
    // What stands in brackets is about the recording itself.
    for row in
        TABLE.iter().chain(recorded_clients::TABLE).filter(|row| !row.listed.starts_with('('))
    {
        let is_there =
            pages.lines().any(|line| line.contains(row.listed) && line.starts_with("| "));
        assert!(is_there, "{} {}: no row begins with {:?}", row.label, row.at, row.listed);
    }
}
