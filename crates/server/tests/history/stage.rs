//! The newer way back to a message: staged, cleared, committed.

use serde_json::{Value, json};

use crate::golden::recorded;
use crate::scene::{begin, end, read, seq, session, turn};
use crate::support::{Answer, House, Stream};

/// The files of the recording: one changed, one new, one without a newline at its end.
const FILES: [(&str, &str); 3] =
    [("a.txt", "HELLO\n"), ("b.txt", "one\ntwo\nthree\n"), ("new.bin", "x")];

/// A project with two turns: `msg_0` wrote `kept.txt`, `msg_1` wrote [`FILES`].
fn house() -> (House, String) {
    let house = House::in_git();
    house.put("a.txt", "hello\n");
    let session = session(&house, "T");
    turn(&house, &session, "0", &[("kept.txt", "kept\n")]);
    turn(&house, &session, "1", &FILES);
    (house, session)
}

fn stage(house: &House, session: &str, body: &Value) -> Answer {
    house.client().post(&format!("/api/session/{session}/revert/stage"), body)
}

fn step(house: &House, session: &str, word: &str) -> Answer {
    house.client().send("POST", &format!("/api/session/{session}/revert/{word}"), None)
}

fn shown(house: &House, session: &str) -> Value {
    house.client().get(&format!("/api/session/{session}")).expect(200)["data"].clone()
}

fn count(house: &House, session: &str) -> Option<usize> {
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    listed.as_array().map(Vec::len)
}

#[test]
fn what_is_staged_takes_files_back_shows_itself_as_the_older_route_and_is_cleared_whole() {
    let (house, session) = house();
    let staged =
        stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200)["data"].clone();
    assert_eq!(staged["messageID"], "msg_1");
    assert_eq!(staged["snapshot"].as_str().map(str::len), Some(40));
    assert!(staged["diff"].as_str().is_some_and(|diff| diff.contains("a/b.txt")), "{staged}");
    assert_eq!(shown(&house, &session)["revert"], staged);
    let older = house.client().get(&format!("/session/{session}")).expect(200);
    assert_eq!(older["revert"], staged, "one head, seen by both");
    assert_eq!(read(&house, "a.txt").as_deref(), Some("hello\n"));
    assert_eq!((read(&house, "b.txt"), read(&house, "new.bin")), (None, None));
    assert_eq!(read(&house, "kept.txt").as_deref(), Some("kept\n"));
    assert_eq!(count(&house, &session), Some(4), "messages stay until it is committed");

    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(shown(&house, &session).get("revert"), None);
    for (file, content) in FILES {
        assert_eq!(read(&house, file).as_deref(), Some(content));
    }
    let before = seq(&house, &session);
    assert_eq!(step(&house, &session, "clear").status, 204);
    assert_eq!(step(&house, &session, "commit").status, 204);
    assert_eq!(seq(&house, &session), before, "there was nothing left to do");
}

#[test]
fn without_files_the_conversation_goes_back_alone_and_files_taken_before_come_back() {
    let (house, session) = house();
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

#[test]
fn what_is_committed_is_hidden_as_by_a_prompt_and_files_stay_as_they_are_r19() {
    let (house, session) = house();
    stage(&house, &session, &json!({ "messageID": "msg_1" })).expect(200);
    assert_eq!(step(&house, &session, "commit").status, 204);
    assert_eq!(count(&house, &session), Some(2));
    assert_eq!(shown(&house, &session).get("revert"), None);
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
fn a_slip_is_told_in_the_words_of_the_newer_routes_and_changes_nothing() {
    let (house, session) = house();
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

#[test]
fn while_a_turn_runs_nothing_is_staged_cleared_or_committed_r45() {
    let (house, session) = house();
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

#[test]
fn somebody_else_is_asked_about_before_work_is_staged_r37() {
    let (house, session) = house();
    let other = house.client().with("x-turnstone-actor", "model");
    let path = format!("/api/session/{session}/revert/stage");
    for files in [true, false] {
        let body = json!({ "messageID": "msg_1", "files": files });
        assert_eq!(other.post(&path, &body).expect(409)["_tag"], "PermissionAskedError");
    }
    assert_eq!(read(&house, "a.txt").as_deref(), Some("HELLO\n"));
    assert_eq!(shown(&house, &session).get("revert"), None);
}

#[test]
fn a_stale_request_is_refused_and_a_repeated_one_gets_the_first_answer_r43() {
    let (house, session) = house();
    let path = format!("/api/session/{session}/revert");
    let (body, old) = (json!({ "messageID": "msg_1" }), seq(&house, &session) - 1);
    let stale = house.client().with("if-match", &format!("\"{old}\""));
    assert_eq!(stale.post(&format!("{path}/stage"), &body).expect(409)["_tag"], "StaleError");
    for word in ["clear", "commit"] {
        let refused = stale.send("POST", &format!("{path}/{word}"), None).expect(409);
        assert_eq!(refused["_tag"], "StaleError", "{word}");
    }
    let keyed = house.client().with("idempotency-key", "s");
    let fresh = keyed.with("if-match", &format!("\"{}\"", old + 1));
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
fn next(stream: &mut Stream) -> Value {
    loop {
        let event = stream.event().expect("the stream goes on");
        if event["type"] == "session.diff" || event["type"] == "session.updated" {
            return event;
        }
    }
}

#[test]
fn a_revert_tells_what_it_took_back_and_then_where_the_session_stands_as_recorded() {
    let (house, session) = house();
    let mut stream = house.client().stream("/event");
    stream.until("server.connected");
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
    // It is in the log: whoever was away hears it, also when the messages are hidden since.
    step(&house, &session, "commit").expect(204);
    let mut later = house.client().with("last-event-id", "0").stream("/event");
    assert_eq!(later.until("session.diff"), diff);
}

#[test]
fn where_a_session_stands_is_numbered_and_told_to_replicas_r25() {
    let (house, session) = house();
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
