//! Compaction over the newer route.

use serde_json::json;

use crate::support::ServerFixture;
use crate::support::TurnDriver;
use crate::turn_fixture::{seq, session, turn};

#[test]
fn compact_without_runner_stores_nothing_and_is_tagged() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let (path, before) = (format!("/api/session/{session}/compact"), seq(&house, &session));
    let refused = house.client().send("POST", &path, None).expect(503);
    assert_eq!(
        (&refused["_tag"], &refused["service"]),
        (&json!("ServiceUnavailableError"), &json!("session.compact"))
    );
    assert_eq!(seq(&house, &session), before);
    let stale = house.client().with_header("if-match", "\"99\"").send("POST", &path, None);
    assert_eq!(stale.expect(409)["_tag"], "StaleError");
    let unknown = house.client().send("POST", "/api/session/ses_unknown/compact", None);
    assert_eq!(unknown.expect(404)["_tag"], "SessionNotFoundError");
}

#[test]
fn compact_waits_for_runner_with_the_session_model() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let client = house.client();
    let runner = client.post("/turnstone/runner", &json!({ "name": "loop" })).expect(200);
    let inbox = format!("/turnstone/runner/{}/inbox", runner["runner"]["id"].as_str().expect("id"));
    let path = format!("/api/session/{session}/compact");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| client.send("POST", &path, None));
        let waiting = client.get(&format!("{inbox}?wait=20000")).expect(200);
        assert_eq!(waiting["sessions"], json!([session]));
        let messages = client.get(&format!("/session/{session}/message")).expect(200);
        let request = messages.as_array().and_then(|all| all.last()).expect("a request");
        assert_eq!(request["parts"][0]["type"], "compaction");
        assert_eq!(request["parts"][0]["auto"], false);
        assert_eq!(request["info"]["model"]["modelID"], "m", "that of the newest prompt");
        let driver = TurnDriver::take(client, &session);
        assert!(!asked.is_finished(), "it is answered when it is dealt with");
        driver.end();
        let answer = asked.join().expect("answered");
        assert_eq!(answer.status, 204, "{}", answer.text());
    });
}
