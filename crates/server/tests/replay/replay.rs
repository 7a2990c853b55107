//! Asks what was asked and compares what is answered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clients;
use crate::compare::{Comparison, Difference};
use crate::crash;
use crate::difference::{self, TABLE, fits, settle};
use crate::drive::Driver;
use crate::events;
use crate::model::Model;
use crate::names::Names;
use crate::record::{Pair, pairs};
use crate::stream;
use crate::support::{Answer, Client, House, git};
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
pub(crate) fn house() -> House {
    let house = House::new();
    house.put(".gitignore", "*.log\n");
    house.put("a.txt", "hello\n");
    house.put("opencode.json", CONFIG);
    house.put("src/main.rs", "fn main() {}\n");
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "one"]] {
        git(&house.project(), words);
    }
    house
}

/// Who asks again.
struct Replay<'a> {
    house: &'a House,
    names: &'a Mutex<Names>,
    model: &'a Model,
    /// How many prompts were answered as far as the model did.
    said: AtomicUsize,
}

impl<'a> Replay<'a> {
    fn new(house: &'a House, names: &'a Mutex<Names>, model: &'a Model) -> Self {
        Self { house, names, model, said: AtomicUsize::new(0) }
    }

    /// Waits until the model has said more than `said` answers, or waits for somebody itself.
    fn hear(&self, said: usize) {
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
    fn is_prompt(pair: &Pair) -> bool {
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

    fn client(&self, pair: &Pair) -> Client {
        let names = self.names.lock().expect("unpoisoned");
        let with = |client: Client, (name, value): &(String, String)| {
            client.with(name, &names.ours(value))
        };
        pair.headers.iter().fold(self.house.client().clone(), with)
    }

    /// The path with our names, moments and requests in it.
    fn path(&self, pair: &Pair) -> String {
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
        let path = names.ours(&pair.path);
        if let Some(path) = stream::numbered(self.house.client(), &path) {
            return path;
        }
        let Some((head, start)) = path.split_once("start=") else { return path };
        let (start, rest) = start.split_once('&').unwrap_or((start, ""));
        let start = start.parse().expect("a moment");
        // Before anything happened it is the same moment.
        format!("{head}start={}&{rest}", names.moment(start).unwrap_or(start))
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

    fn ask(&self, pair: &Pair) -> Answer {
        let path = self.path(pair);
        if pair.is_stream() {
            return stream::read(&self.client(pair), &path);
        }
        if ["/permission", "/question"].contains(&path.as_str()) && pair.answer != json!([]) {
            self.pending(&path);
        }
        let body = pair.bytes().map(|text| self.names.lock().expect("unpoisoned").ours(&text));
        self.client(pair).send(&pair.method, &path, body.as_deref().map(str::as_bytes))
    }

    /// Asks, and answers as the model did.
    fn prompt(&self, pair: &Pair) -> Answer {
        let answers = self.model.answers(pair);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| self.ask(pair));
            loop {
                let is_over = asked.is_finished();
                if let Some(session) = self.session(pair)
                    && let Some(driver) = Driver::take(self.house, self.names, self.model, &session)
                {
                    self.children(pair, &driver);
                    driver.answer(&answers);
                    self.said.fetch_add(1, Ordering::Relaxed);
                    self.entitle(pair, &session);
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
    fn children(&self, pair: &Pair, driver: &Driver<'_>) {
        if pair.path.ends_with("/command") {
            let made =
                pair.session().map(|it| self.model.children(it, pair.asked)).unwrap_or_default();
            made.iter().for_each(|child| driver.child(child));
        }
    }

    fn session(&self, pair: &Pair) -> Option<String> {
        let names = self.names.lock().expect("unpoisoned");
        names.find(pair.session()?).map(str::to_owned)
    }

    /// Gives the session the title that the model gave it.
    fn entitle(&self, pair: &Pair, session: &str) {
        if let Some(title) = pair.session().and_then(|it| self.model.title(it)) {
            let path = format!("/session/{session}");
            self.house.client().patch(&path, &json!({ "title": title })).expect(200);
        }
    }

    fn compare(&self, pair: &Pair, answer: &Answer) -> Vec<Difference> {
        let mut names = self.names.lock().expect("unpoisoned");
        let mut comparison =
            Comparison { label: &pair.label, names: &mut names, found: Vec::new() };
        if answer.status != pair.status {
            let ours = format!("{} {}", answer.status, answer.text());
            comparison.differs("status", &pair.status.to_string(), &ours);
            return comparison.found;
        }
        // A cursor first: links hold it.
        let mut told: Vec<_> = pair.told.iter().collect();
        told.sort_by_key(|(name, _)| name != "x-next-cursor");
        for (name, value) in told {
            let at = format!("header/{name}");
            match (name.as_str(), answer.header(name)) {
                ("x-next-cursor", Some(ours)) => drop(comparison.names.learn(value, ours)),
                (_, Some(ours)) if comparison.names.ours(value) == ours => {}
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

    fn play(&self, pairs: &[Pair]) -> Vec<Difference> {
        std::thread::scope(|scope| {
            let mut open: Vec<(&Pair, ScopedJoinHandle<'_, Answer>)> = Vec::new();
            let mut found = Vec::new();
            for (nth, pair) in pairs.iter().enumerate() {
                while let Some(place) = open.iter().position(|(early, _)| early.seq < pair.seq) {
                    let (early, asked) = open.remove(place);
                    found.extend(self.compare(early, &asked.join().expect("asked")));
                }
                if difference::SKIPPED.iter().any(|(label, _)| fits(label, &pair.label)) {
                    continue;
                }
                // Lists are in the order of moments.
                std::thread::sleep(Duration::from_millis(2));
                if pairs[nth + 1..].iter().any(|later| later.seq < pair.seq) {
                    let said = self.said.load(Ordering::Relaxed);
                    open.push((pair, scope.spawn(|| self.prompt(pair))));
                    // What is stopped has begun.
                    if pairs[nth + 1].path.ends_with("/abort") {
                        self.hear(said);
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
struct Heard<'a> {
    /// What it is called in differences.
    label: &'a str,
    /// Where it was listened.
    path: &'a str,
    told: &'a str,
    /// What `/api/event` told, where that was recorded.
    api: Option<&'a str>,
}

impl<'a> Heard<'a> {
    const fn of(told: &'a str) -> Self {
        Self { label: "event", path: "/event", told, api: None }
    }
}

/// Plays a recording and listens; what differs.
fn play(house: &House, names: &Mutex<Names>, text: &str, want: &Heard<'_>) -> Vec<Difference> {
    let listen = |path| {
        let stream = house.client().stream(path);
        std::thread::spawn(move || events::heard(stream))
    };
    let (hears, hears_api) = (listen(want.path), listen("/api/event"));
    let pairs = pairs(text);
    let mut found = ask_again(house, names, &Model::of(&pairs), &pairs);
    let end = json!({ "message": events::END, "variant": "info" });
    house.client().post("/tui/show-toast", &end).expect(200);
    let (heard, heard_api) = (hears.join().expect("heard"), hears_api.join().expect("heard"));
    let names = names.lock().expect("unpoisoned");
    found.extend(events::compare(want.label, want.told, &heard, &names));
    if let Some(api) = want.api {
        found.extend(stream::until_status(api, &heard_api, &names));
    }
    found
}

/// Plays a recording; what is answered otherwise.
pub(crate) fn ask_again(
    house: &House,
    names: &Mutex<Names>,
    model: &Model,
    pairs: &[Pair],
) -> Vec<Difference> {
    let runner =
        house.client().post("/turnstone/runner", &json!({ "name": "recorded" })).expect(200);
    let inbox =
        format!("/turnstone/runner/{}/inbox", runner["runner"]["id"].as_str().expect("an id"));
    let (tell, told) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // A runner must be heard of.
        let beat = move || {
            while told.recv_timeout(Duration::from_secs(5))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                house.client().get(&inbox).expect(200);
            }
        };
        scope.spawn(beat);
        let found = Replay::new(house, names, model).play(pairs);
        drop(tell);
        found
    })
}

/// What a server with a password answers otherwise.
fn guarded() -> Vec<Difference> {
    let house = House::with(|settings| {
        let (user, password) = ("opencode".to_owned(), "secret".to_owned());
        settings.credentials = Some(Credentials { user, password });
        settings.origins = vec!["https://my.example".to_owned()];
    });
    let names = Mutex::new(Names::new(&house));
    let pairs = pairs(include_str!("../golden/auth.jsonl"));
    Replay::new(&house, &names, &Model::default()).play(&pairs)
}

/// What is answered otherwise to requests that were recorded on a server of their own.
fn afresh(text: &str) -> Vec<Difference> {
    let house = house();
    let names = Mutex::new(Names::new(&house));
    let pairs = pairs(text);
    ask_again(&house, &names, &Model::of(&pairs), &pairs)
}

/// What is answered and told otherwise to a real client.
fn followed(label: &str, path: &str, text: &str, told: &str) -> Vec<Difference> {
    let house = house();
    let names = Mutex::new(Names::new(&house));
    play(&house, &names, text, &Heard { label, path, told, api: None })
}

#[test]
fn what_was_recorded_is_answered_again_and_every_difference_has_its_reason() {
    let mut found = Vec::new();
    let house = house();
    let names = Mutex::new(Names::new(&house));
    let heard = Heard {
        api: Some(include_str!("../golden/drive-api-events.jsonl")),
        ..Heard::of(include_str!("../golden/drive-events.jsonl"))
    };
    found.extend(play(&house, &names, include_str!("../golden/drive.jsonl"), &heard));
    let heard = Heard {
        api: Some(include_str!("../golden/kinds-api-events.jsonl")),
        ..Heard::of(include_str!("../golden/kinds-events.jsonl"))
    };
    found.extend(play(&house, &names, include_str!("../golden/kinds.jsonl"), &heard));
    drop(house);
    let fresh = self::house();
    let names = Mutex::new(Names::new(&fresh));
    let heard = Heard::of(include_str!("../golden/lists-events.jsonl"));
    found.extend(play(&fresh, &names, include_str!("../golden/lists.jsonl"), &heard));
    found.extend(stream::openings(&fresh));
    found.extend(guarded());
    found.extend(afresh(include_str!("../golden/share.jsonl")));
    found.extend(followed(
        "tui event",
        "/global/event",
        include_str!("../golden/client-tui.jsonl"),
        include_str!("../golden/client-tui-events.jsonl"),
    ));
    found.extend(followed(
        "web event",
        "/global/event",
        include_str!("../golden/client-web.jsonl"),
        include_str!("../golden/client-web-events.jsonl"),
    ));
    found.extend(followed(
        "run event",
        "/event",
        include_str!("../golden/client-run.jsonl"),
        include_str!("../golden/client-run-events.jsonl"),
    ));
    found.extend(crash::play());
    assert!(difference::SKIPPED.iter().all(|(_, why)| !why.is_empty()));
    settle(&found, TABLE);
}

#[test]
fn every_reason_is_a_row_of_the_documentation() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let read = |name: &str| fs_err::read_to_string(format!("{root}/{name}")).expect("read");
    let pages = read("http.md") + &read("events.md");
    // What stands in brackets is about the recording itself.
    for row in TABLE.iter().chain(clients::TABLE).filter(|row| !row.listed.starts_with('(')) {
        let is_there =
            pages.lines().any(|line| line.contains(row.listed) && line.starts_with("| "));
        assert!(is_there, "{} {}: no row begins with {:?}", row.label, row.at, row.listed);
    }
}
