//! Prompts said twice under one key, and prompts about a session that has moved on (R43).

use std::time::Duration;

use serde_json::{Value, json};

use crate::runner::TestRunner;
use crate::support::ServerFixture;
use crate::{is_idle, messages, seq, session, text_prompt, waiting};

/// Every route that takes a prompt: its path, a body, and the status of its answer.
fn routes(id: &str) -> Vec<(String, Value, u16)> {
    let model = json!({ "providerID": "p", "modelID": "m" });
    let init = json!({ "providerID": "p", "modelID": "m",
                       "messageID": "msg_zzzzzzzzzzzz0000000000000c" });
    vec![
        (format!("/session/{id}/message"), text_prompt("by message"), 200),
        (format!("/session/{id}/prompt_async"), text_prompt("by and by"), 204),
        (format!("/session/{id}/command"), json!({ "command": "greet", "arguments": "a" }), 200),
        (format!("/api/session/{id}/prompt"), json!({ "prompt": { "text": "newer" } }), 200),
        (format!("/session/{id}/summarize"), model, 200),
        (format!("/session/{id}/init"), init, 200),
    ]
}

fn house() -> ServerFixture {
    let house = ServerFixture::new();
    house.write_file(".opencode/command/greet.md", "Greet $ARGUMENTS.\n");
    house
}

/// Answers whatever comes until `count` prompts are answered.
fn serve(runner: &TestRunner, count: usize) {
    for _ in 0..count {
        runner.take().answer("Done.");
    }
}

fn is_settled(house: &ServerFixture, id: &str) -> bool {
    is_idle(house, id) && crate::inbox(house, id).is_empty()
}

/// Proves R43.
#[test]
fn repeated_prompt_gets_first_answer_on_every_route() {
    let house = house();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let mut first = Vec::new();
    for (path, body, status) in routes(&id) {
        let keyed = house.client().with_header("idempotency-key", "k");
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| keyed.post(&path, &body));
            serve(&runner, 1);
            asking.join().expect("answered")
        });
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let again = keyed.post(&path, &body);
        assert_eq!((again.status, again.text()), (status, answer.text()), "{path}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path}");
        let other = keyed.post(
            &path,
            &json!({ "parts": [], "arguments": "", "command": "greet",
            "prompt": { "text": "?" }, "providerID": "q", "modelID": "m" }),
        );
        assert_eq!(other.expect(409)["_tag"], "KeyReusedError", "{path}");
        first.push(answer.text());
    }
    while !is_settled(&house, &id) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stored = messages(&house, &id).len();
    let house = house.restart();
    for ((path, body, status), first) in routes(&id).into_iter().zip(first) {
        let again = house.client().with_header("idempotency-key", "k").post(&path, &body);
        assert_eq!((again.status, again.text()), (status, first), "{path}");
    }
    assert_eq!(messages(&house, &id).len(), stored, "nothing was said twice");
}

/// Proves R43.
#[test]
fn stale_prompt_is_rejected_on_every_route() {
    let house = house();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    house.client().post(&format!("/session/{id}/message"), &no_reply_body("before")).expect(200);
    let now = seq(&house, &id);
    let stale = house.client().with_header("if-match", &format!("\"{}\"", now - 1));
    for (path, body, _) in routes(&id) {
        let refused = stale.post(&path, &body).expect(409);
        assert_eq!((&refused["_tag"], &refused["current"]), (&json!("StaleError"), &json!(now)));
        let keyed = stale.with_header("idempotency-key", "s").post(&path, &body);
        assert_eq!(keyed.expect(409)["_tag"], "StaleError", "{path}");
    }
    assert_eq!(seq(&house, &id), now);
    for (path, body, status) in routes(&id) {
        while !is_settled(&house, &id) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let fresh = house.client().with_header("if-match", &format!("\"{}\"", seq(&house, &id)));
        // What was refused may be tried again under its key.
        let fresh = fresh.with_header("idempotency-key", "s");
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| fresh.post(&path, &body));
            serve(&runner, 1);
            asking.join().expect("answered")
        });
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
}

fn no_reply_body(words: &str) -> Value {
    let mut body = text_prompt(words);
    body["noReply"] = true.into();
    body
}

/// Proves R43.
#[test]
fn concurrent_prompts_with_one_key_get_one_answer() {
    let house = house();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    for (path, body, status) in routes(&id) {
        let keyed = house.client().with_header("idempotency-key", "race");
        let answers: Vec<_> = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| keyed.post(&path, &body));
            let asking: Vec<_> = (0..4).map(|_| ask()).collect();
            serve(&runner, 1);
            asking.into_iter().map(|one| one.join().expect("answered")).collect()
        });
        for answer in &answers {
            assert_eq!((answer.status, answer.text()), (status, answers[0].text()), "{path}");
        }
        while !is_settled(&house, &id) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // A summary and an init are prompts too.
    let stored = messages(&house, &id);
    let prompts = stored.iter().filter(|message| message["info"]["role"] == "user").count();
    assert_eq!(prompts, routes(&id).len());
}

/// Proves R43.
#[test]
fn reconnected_client_gets_the_answer() {
    let house = house();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let path = format!("/session/{id}/message");
    let body = text_prompt("take your time");
    let keyed = house.client().with_header("idempotency-key", "patient");
    // The connection is closed before there is an answer.
    let asked = keyed.post_without_reading(&path, &body);
    waiting(&house, &id);
    drop(asked);
    let answer = std::thread::scope(|scope| {
        let again = scope.spawn(|| keyed.post(&path, &body).expect(200));
        serve(&runner, 1);
        again.join().expect("answered")
    });
    assert_eq!(answer["info"]["finish"], "stop");
    assert_eq!(messages(&house, &id).len(), 2, "it was said once");
    assert_eq!(keyed.post(&path, &body).expect(200), answer);
}

/// Proves R43.
#[test]
fn retry_after_server_exit_finds_the_prompt() {
    let mut house = house();
    for (path, body, status) in routes("ID") {
        let id = session(&house);
        let path = path.replace("ID", &id);
        let mut body = body;
        // Each session has its own message.
        if body.get("messageID").is_some() {
            body["messageID"] = json!(format!("msg_{}", id.trim_start_matches("ses_")));
        }
        let _runner = TestRunner::attach(&house);
        let open =
            house.client().with_header("idempotency-key", "cut").post_without_reading(&path, &body);
        let asked = waiting(&house, &id);
        drop(open);
        house = house.restart();
        let keyed = house.client().with_header("idempotency-key", "cut");
        let runner = TestRunner::attach(&house);
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| keyed.post(&path, &body));
            let taken = runner.take();
            assert_eq!(taken.message(), asked, "{path}");
            taken.answer("Done.");
            asking.join().expect("answered")
        });
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(messages(&house, &id).len(), 2, "{path}: it was said once");
    }
}
