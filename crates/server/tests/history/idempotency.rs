//! Requests made once, and requests about a session that has moved on (R43).

use serde_json::json;

use crate::support::{ServerFixture, TurnDriver};
use crate::turn_fixture::{begin, end, read, seq, session, turn};

/// Proves R43.
#[test]
fn repeated_request_gets_first_answer_after_restart() {
    let house = ServerFixture::new();
    let keyed = house.client().with_header("idempotency-key", "one");
    let body = json!({ "title": "made once" });
    let first = keyed.post("/session", &body);
    let made = first.expect(200);
    assert_eq!(first.header("idempotent-replayed"), None);
    let again = keyed.post("/session", &body);
    assert_eq!(again.expect(200), made);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let house = house.restart();
    let keyed = house.client().with_header("idempotency-key", "one");
    assert_eq!(keyed.post("/session", &body).expect(200), made);
    let listed = house.client().get("/session").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    // The key of one route is nothing to another, nor of one actor to another.
    let path = format!("/session/{}/fork", made["id"].as_str().expect("an id"));
    keyed.post(&path, &json!({})).expect(200);
    keyed.with_header("x-turnstone-actor", "bob").post("/session", &body).expect(200);
    assert_eq!(house.client().get("/session").expect(200).as_array().map(Vec::len), Some(3));
    let reused = keyed.post("/session", &json!({ "title": "something else" })).expect(409);
    assert_eq!(reused["_tag"], "KeyReusedError");
}

#[test]
fn repeated_append_is_applied_once() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let path = format!("/session/{session}");
    let keyed = house.client().with_header("idempotency-key", "rule");
    let body = json!({ "permission": [{"permission": "bash", "pattern": "*", "action": "ask"}] });
    keyed.patch(&path, &body).expect(200);
    let shown = keyed.patch(&path, &body).expect(200);
    assert_eq!(shown["permission"].as_array().map(Vec::len), Some(1));
}

#[test]
fn concurrent_equal_requests_get_one_answer() {
    let house = ServerFixture::new();
    let address = house.address();
    let ask = || {
        let client =
            crate::support::TestClient::new(address).with_header("idempotency-key", "race");
        client.post("/session", &json!({ "title": "once" })).expect(200)
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().expect("answered")).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(house.client().get("/session").expect(200).as_array().map(Vec::len), Some(1));
}

#[test]
fn rejected_request_can_be_retried_with_same_key() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let running = begin(&house, &session, "2");
    let keyed = house.client().with_header("idempotency-key", "later");
    let (path, body) = (format!("/session/{session}/revert"), json!({ "messageID": "msg_1" }));
    keyed.post(&path, &body).expect(409);
    end(&house, &running);
    keyed.post(&path, &body).expect(200);
}

/// Proves R43.
#[test]
fn stale_if_match_changes_nothing() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "one")]);
    let now = seq(&house, &session);
    let stale = house.client().with_header("if-match", &format!("\"{}\"", now - 1));
    let path = format!("/session/{session}");
    let body = json!({ "messageID": "msg_1" });
    let attempts = [
        stale.post(&format!("{path}/revert"), &body),
        stale.post(&format!("{path}/fork"), &json!({})),
        stale.patch(&path, &json!({ "title": "stale" })),
        stale.delete(&format!("{path}/message/msg_1")),
        stale.delete(&format!("{path}/message/msg_1a/part/prt_1s")),
    ];
    for refused in attempts {
        let refused = refused.expect(409);
        assert_eq!(refused["_tag"], "StaleError");
        assert_eq!((&refused["current"], &refused["expected"]), (&json!(now), &json!(now - 1)));
    }
    assert_eq!(seq(&house, &session), now);
    assert_eq!(read(&house, "a").as_deref(), Some("one"));
    let fresh = house.client().with_header("if-match", &format!("\"{now}\""));
    fresh.post(&format!("{path}/revert"), &body).expect(200);
    assert_eq!(read(&house, "a"), None);
    fresh.send("POST", &format!("{path}/unrevert"), None).expect(409);
    house.client().with_header("if-match", "many").patch(&path, &json!({})).expect(400);
}

/// Proves R43.
#[test]
fn concurrent_if_match_has_one_winner() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "one")]);
    turn(&house, &session, "2", &[("a", "two")]);
    let (address, now) = (house.address(), seq(&house, &session));
    let ask = |message: &str| {
        let client =
            crate::support::TestClient::new(address).with_header("if-match", &format!("\"{now}\""));
        let body = json!({ "messageID": message });
        client.post(&format!("/session/{session}/revert"), &body).status
    };
    let mut answers: Vec<u16> = std::thread::scope(|scope| {
        let asked = ["msg_1", "msg_2"].map(|message| scope.spawn(move || ask(message)));
        asked.into_iter().map(|one| one.join().expect("answered")).collect()
    });
    answers.sort_unstable();
    assert_eq!(answers, [200, 409]);
}

/// The bytes of a secret are nowhere in the data directory.
fn assert_not_stored(house: &ServerFixture, secret: &str) {
    let data = house.home().parent().expect("a parent").join("data");
    let mut folders = vec![data];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).expect("listed") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs_err::read(entry.path()).expect("read");
                let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(!found, "{} holds {secret}", entry.path().display());
            }
        }
    }
}

#[test]
fn answers_with_file_content_are_not_stored() {
    let house = ServerFixture::new();
    house.write_file("leak.txt", "a very secret line of a file\n");
    let driver = TurnDriver::begin(house.client(), &session(&house, "T"), "go");
    let keyed = driver.with("idempotency-key", "read");
    let ask = json!({ "path": "leak.txt" });
    let first = keyed.post("file/read", &ask);
    assert_eq!(first.expect(200)["text"], "a very secret line of a file\n");
    house.write_file("leak.txt", "now\n");
    let again = keyed.post("file/read", &ask);
    assert_eq!(
        (again.expect(200)["text"].clone(), again.header("idempotent-replayed")),
        (json!("now\n"), None)
    );
    assert_not_stored(&house, "very secret line");
}
