//! Requests that were cut off between their first event and their answer (R43).

use serde_json::json;

use crate::support::{ServerFixture, TurnDriver};
use crate::turn_fixture::{read, session, turn};

#[test]
fn retry_finishes_interrupted_undo() {
    let scenario = fail::FailScenario::setup();
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "one")]);
    turn(&house, &session, "2", &[("a", "two")]);
    let undo = format!("/turnstone/session/{session}/undo");
    let keyed = house.client().with_header("idempotency-key", "u");
    fail::cfg("engine::operation_planned", "return").expect("set");
    keyed.post(&undo, &json!({})).expect(500);
    fail::remove("engine::operation_planned");
    assert_eq!(read(&house, "a").as_deref(), Some("two"), "planned, not done");
    let done = keyed.post(&undo, &json!({})).expect(200);
    assert_eq!(done["complete"], true);
    assert_eq!(read(&house, "a").as_deref(), Some("one"), "one turn, not two");
    assert_eq!(keyed.post(&undo, &json!({})).expect(200), done);
    assert_eq!(read(&house, "a").as_deref(), Some("one"));
    scenario.teardown();
}

#[test]
fn retry_finishes_interrupted_staged_revert() {
    let scenario = fail::FailScenario::setup();
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "one")]);
    turn(&house, &session, "2", &[("a", "two")]);
    let path = format!("/api/session/{session}/revert");
    let keyed = house.client().with_header("idempotency-key", "s");
    let body = json!({ "messageID": "msg_2" });
    fail::cfg("engine::operation_planned", "return").expect("set");
    keyed.post(&format!("{path}/stage"), &body).expect(500);
    fail::remove("engine::operation_planned");
    assert_eq!(read(&house, "a").as_deref(), Some("two"), "planned, not done");
    let staged = keyed.post(&format!("{path}/stage"), &body).expect(200);
    assert_eq!(staged["data"]["messageID"], "msg_2");
    assert_eq!(read(&house, "a").as_deref(), Some("one"));

    fail::cfg("engine::branch_hides", "return").expect("set");
    keyed.send("POST", &format!("{path}/commit"), None).expect(500);
    fail::remove("engine::branch_hides");
    assert_eq!(keyed.send("POST", &format!("{path}/commit"), None).status, 204);
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    let history = house.client().get(&format!("/api/session/{session}/history")).expect(200);
    let reported = history["data"].as_array().expect("a list").iter();
    let reported: Vec<_> = reported.filter_map(|it| it["type"].as_str()).collect();
    let count =
        |kind: &str| reported.iter().filter(|it| **it == format!("session.next.{kind}")).count();
    assert_eq!((count("revert.staged"), count("revert.committed")), (1, 1), "{reported:?}");
    scenario.teardown();
}

#[test]
fn retry_recreates_interrupted_fork() {
    let scenario = fail::FailScenario::setup();
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "one")]);
    let fork = format!("/session/{session}/fork");
    let keyed = house.client().with_header("idempotency-key", "f");
    fail::cfg("engine::fork_copies", "return").expect("set");
    keyed.post(&fork, &json!({})).expect(500);
    fail::remove("engine::fork_copies");
    let made = keyed.post(&fork, &json!({})).expect(200);
    assert_eq!(keyed.post(&fork, &json!({})).expect(200), made);
    let listed = house.client().get("/session").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let path = format!("/session/{}/message", made["id"].as_str().expect("an id"));
    assert_eq!(house.client().get(&path).expect(200).as_array().map(Vec::len), Some(2));
    scenario.teardown();
}

#[test]
fn retry_announces_interrupted_tool() {
    let scenario = fail::FailScenario::setup();
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &session, "go").with("idempotency-key", "t");
    let step = driver.step();
    let body = json!({"messageID": step, "partID": "prt_tool", "callID": "c", "tool": "t",
        "input": {}, "touches": {"paths": ["f"]}});
    fail::cfg("engine::call_open", "panic").expect("set");
    driver.post("tool", &body).expect(500);
    fail::remove("engine::call_open");
    driver.post("tool", &body).expect(200);
    house.write_file("f", "f");
    let done = driver.post("tool/prt_tool/end", &json!({ "output": "" })).expect(200);
    assert_eq!(done["files"], json!([{ "path": "f", "status": "A" }]));
    driver.end();
    house.client().post(&format!("/turnstone/session/{session}/undo"), &json!({})).expect(200);
    assert_eq!(read(&house, "f"), None);
    scenario.teardown();
}
