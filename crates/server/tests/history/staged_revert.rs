//! The newer way back to a message: staged, cleared, committed.

use serde_json::{Value, json};

use crate::golden::recorded;
use crate::support::{HttpAnswer, ServerFixture, SseStream};
use crate::turn_fixture::{begin, end, read, seq, session, turn};

/// The files of the recording: one changed, one new, one without a newline at its end.
const FILES: [(&str, &str); 3] =
    [("a.txt", "HELLO\n"), ("b.txt", "one\ntwo\nthree\n"), ("new.bin", "x")];

/// A project with two turns: `msg_0` wrote `kept.txt`, `msg_1` wrote [`FILES`].
fn server_with_two_turns() -> (ServerFixture, String) {
    let house = ServerFixture::with_git();
    house.write_file("a.txt", "hello\n");
    let session = session(&house, "T");
    turn(&house, &session, "0", &[("kept.txt", "kept\n")]);
    turn(&house, &session, "1", &FILES);
    (house, session)
}

fn stage(house: &ServerFixture, session: &str, body: &Value) -> HttpAnswer {
    house.client().post(&format!("/api/session/{session}/revert/stage"), body)
}

fn step(house: &ServerFixture, session: &str, word: &str) -> HttpAnswer {
    house.client().send("POST", &format!("/api/session/{session}/revert/{word}"), None)
}

fn read_session(house: &ServerFixture, session: &str) -> Value {
    house.client().get(&format!("/api/session/{session}")).expect(200)["data"].clone()
}

fn count(house: &ServerFixture, session: &str) -> Option<usize> {
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    listed.as_array().map(Vec::len)
}

#[test]
fn staged_revert_restores_files_and_clear_undoes_it() {
    let (house, session) = server_with_two_turns();
    let staged =
        stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200)["data"].clone();
    assert_eq!(staged["messageID"], "msg_1");
    assert_eq!(staged["snapshot"].as_str().map(str::len), Some(40));
    assert!(staged["diff"].as_str().is_some_and(|diff| diff.contains("a/b.txt")), "{staged}");
    assert_eq!(read_session(&house, &session)["revert"], staged);
    let older = house.client().get(&format!("/session/{session}")).expect(200);
    assert_eq!(older["revert"], staged, "one head, seen by both");
    assert_eq!(read(&house, "a.txt").as_deref(), Some("hello\n"));
    assert_eq!((read(&house, "b.txt"), read(&house, "new.bin")), (None, None));
    assert_eq!(read(&house, "kept.txt").as_deref(), Some("kept\n"));
    assert_eq!(count(&house, &session), Some(4), "messages stay until it is committed");

    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(read_session(&house, &session).get("revert"), None);
    for (file, content) in FILES {
        assert_eq!(read(&house, file).as_deref(), Some(content));
    }
    let before = seq(&house, &session);
    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(step(&house, &session, "commit").status, 204);
    assert_eq!(seq(&house, &session), before, "there was nothing left to do");
}

#[test]
fn staged_revert_without_files_reverts_only_conversation() {
    let (house, session) = server_with_two_turns();
    stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200);
    assert_eq!(read(&house, "b.txt"), None);
    let body = json!({ "messageID": "msg_0", "files": false });
    let staged = stage(&house, &session, &body).expect(200)["data"].clone();
    assert_eq!(staged["messageID"], "msg_0");
    for (file, content) in FILES.into_iter().chain([("kept.txt", "kept\n")]) {
        assert_eq!(read(&house, file).as_deref(), Some(content), "{file}");
    }
    // Moved on with files, they follow.
    stage(&house, &session, &json!({ "messageID": "msg_0", "files": true })).expect(200);
    assert_eq!((read(&house, "b.txt"), read(&house, "kept.txt")), (None, None));
    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(read(&house, "kept.txt").as_deref(), Some("kept\n"));
}

/// Proves R19.
#[test]
fn committed_revert_hides_messages_and_keeps_files() {
    let (house, session) = server_with_two_turns();
    stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200);
    assert_eq!(step(&house, &session, "commit").status, 204);
    assert_eq!(count(&house, &session), Some(2));
    assert_eq!(read_session(&house, &session).get("revert"), None);
    assert_eq!(read(&house, "b.txt"), None);
    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(read(&house, "b.txt"), None, "there is nothing to clear any more");
    // The log keeps it.
    let path = format!("/turnstone/session/{session}/timeline?all=true");
    let line = house.client().get(&path).expect(200);
    let hidden: Vec<&Value> =
        line.as_array().expect("a list").iter().filter(|it| it["hidden"] == true).collect();
    assert_eq!(hidden.len(), 1, "{line}");
    assert_eq!(hidden[0]["messageID"], "msg_1");
}

#[test]
fn staged_revert_errors_are_tagged_and_change_nothing() {
    let (house, session) = server_with_two_turns();
    let before = seq(&house, &session);
    let missing = stage(&house, &session, &json!({ "messageID": "msg_nope" })).expect(404);
    assert_eq!(
        (&missing["_tag"], &missing["messageID"], &missing["sessionID"]),
        (&json!("MessageNotFoundError"), &json!("msg_nope"), &json!(session))
    );
    let unknown = stage(&house, "ses_unknown", &json!({ "messageID": "msg_1" })).expect(404);
    assert_eq!(unknown["_tag"], "SessionNotFoundError");
    for word in ["clear", "commit"] {
        assert_eq!(step(&house, "ses_unknown", word).expect(404), unknown, "{word}");
    }
    for wrong in
        [json!({}), json!({ "messageID": "nope" }), json!({ "messageID": "msg_1", "files": 1 })]
    {
        let refused = stage(&house, &session, &wrong).expect(400);
        assert_eq!(refused["_tag"], "InvalidRequestError", "{wrong}");
    }
    assert_eq!(seq(&house, &session), before);
}

/// Proves R45.
#[test]
fn staged_revert_is_rejected_while_a_turn_runs() {
    let (house, session) = server_with_two_turns();
    let running = begin(&house, &session, "2");
    let before = seq(&house, &session);
    let (_, busy) = recorded("busy revert");
    let mut refused = vec![stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(409)];
    refused.extend(["clear", "commit"].map(|word| step(&house, &session, word).expect(409)));
    for one in refused {
        assert_eq!((&one["_tag"], &one["sessionID"]), (&busy["_tag"], &json!(session)));
    }
    assert_eq!(seq(&house, &session), before, "nothing was written");
    end(&house, &running);
}

/// Proves R37.
#[test]
fn staged_revert_by_another_actor_needs_permission() {
    let (house, session) = server_with_two_turns();
    let other = house.client().with_header("x-turnstone-actor", "model");
    let path = format!("/api/session/{session}/revert/stage");
    for files in [true, false] {
        let body = json!({ "messageID": "msg_1", "files": files });
        assert_eq!(other.post(&path, &body).expect(409)["_tag"], "PermissionAskedError");
    }
    assert_eq!(read(&house, "a.txt").as_deref(), Some("HELLO\n"));
    assert_eq!(read_session(&house, &session).get("revert"), None);
}

/// Proves R43.
#[test]
fn staged_revert_honours_if_match_and_idempotency_key() {
    let (house, session) = server_with_two_turns();
    let path = format!("/api/session/{session}/revert");
    let (body, old) = (json!({ "messageID": "msg_1" }), seq(&house, &session) - 1);
    let stale = house.client().with_header("if-match", &format!("\"{old}\""));
    assert_eq!(stale.post(&format!("{path}/stage"), &body).expect(409)["_tag"], "StaleError");
    for word in ["clear", "commit"] {
        let refused = stale.send("POST", &format!("{path}/{word}"), None).expect(409);
        assert_eq!(refused["_tag"], "StaleError", "{word}");
    }
    let keyed = house.client().with_header("idempotency-key", "s");
    let fresh = keyed.with_header("if-match", &format!("\"{}\"", old + 1));
    let first = fresh.post(&format!("{path}/stage"), &body).expect(200);
    let again = fresh.post(&format!("{path}/stage"), &body);
    assert_eq!((again.expect(200), again.header("idempotent-replayed")), (first, Some("true")));
    assert_eq!(keyed.send("POST", &format!("{path}/commit"), None).status, 204);
    let before = seq(&house, &session);
    let again = keyed.send("POST", &format!("{path}/commit"), None);
    assert_eq!((again.status, again.header("idempotent-replayed")), (204, Some("true")));
    assert_eq!(seq(&house, &session), before);
}

/// The next of the two things a revert tells.
fn next(stream: &mut SseStream) -> Value {
    loop {
        let event = stream.event().expect("the stream goes on");
        if event["type"] == "session.diff" || event["type"] == "session.updated" {
            return event;
        }
    }
}

#[test]
fn revert_publishes_diff_then_session_as_recorded() {
    let (house, session) = server_with_two_turns();
    let mut stream = house.client().stream("/event");
    stream.wait_for("server.connected");
    stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200);
    let diff = next(&mut stream);
    assert_eq!(diff["type"], "session.diff");
    assert_eq!(
        diff["properties"],
        json!({ "sessionID": session, "diff": recorded("diff message").1 })
    );
    let mut stands = next(&mut stream);
    while stands["properties"]["info"].get("revert").is_none() {
        stands = next(&mut stream);
    }
    assert_eq!(stands["properties"]["info"]["revert"]["messageID"], "msg_1");
    // It is in the log: a client that was away receives it, even if the messages are hidden by now.
    step(&house, &session, "commit").expect(204);
    let mut later = house.client().with_header("last-event-id", "0").stream("/event");
    assert_eq!(later.wait_for("session.diff"), diff);
}

/// Proves R25.
#[test]
fn revert_is_a_numbered_event_for_replicas() {
    let (house, session) = server_with_two_turns();
    stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200);
    let rows = house.client().post("/sync/history", &json!({})).expect(200);
    let rows = rows.as_array().expect("a list");
    let own: Vec<&Value> =
        rows.iter().filter(|row| row["aggregate_id"] == json!(session)).collect();
    let numbers: Vec<i64> = own.iter().map(|row| row["seq"].as_i64().expect("a number")).collect();
    assert_eq!(numbers, (0..own.len() as i64).collect::<Vec<_>>());
    let last = own.last().expect("a row");
    assert_eq!(last["type"], "session.updated.1");
    assert_eq!(last["data"]["info"]["revert"]["messageID"], "msg_1");
}
