//! A disk that fails one write: the server says so, goes on reading, and recovers by itself.

use serde_json::json;

use crate::support::ServerFixture;

#[test]
fn poisoned_store_answers_503_and_reopens_by_itself() {
    let scenario = fail::FailScenario::setup();
    let house = ServerFixture::new();
    let first = house.client().post("/session", &json!({ "title": "first" })).expect(200);
    fail::cfg("store::failed_sync", "1*return->off").expect("set");

    let refused = house.client().post("/session", &json!({ "title": "second" }));

    let body = refused.expect(503);
    assert_eq!(
        (&body["_tag"], &body["service"]),
        (&json!("ServiceUnavailableError"), &json!("store"))
    );
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains("hint: check the disk"), "{message}");
    assert!(refused.header("retry-after").is_some_and(|it| it.parse::<u32>().is_ok()));
    let listed = house.client().get("/session").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "reading goes on");
    assert_eq!(listed[0]["id"], first["id"]);

    house.client().post("/session", &json!({ "title": "second" })).expect(200);
    let listed = house.client().get("/session").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    scenario.teardown();
}
