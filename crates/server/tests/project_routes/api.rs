//! The newer routes under `/api`.

use serde_json::{Value, json};

use crate::support::ServerFixture;

#[test]
fn every_api_list_has_its_location() {
    let house = ServerFixture::with_git();
    let project = house.client().get("/project/current").expect(200);
    let location = json!({ "directory": house.project(),
        "project": { "id": project["id"], "directory": house.project() } });
    assert_eq!(house.client().get("/api/location").expect(200), location);
    for path in [
        "integration",
        "reference",
        "skill",
        "model",
        "provider",
        "pty",
        "permission/request",
        "question/request",
    ] {
        let shown = house.client().get(&format!("/api/{path}")).expect(200);
        assert_eq!(shown, json!({ "location": location, "data": [] }), "{path}");
    }
    let agents = house.client().get("/api/agent").expect(200);
    assert_eq!(agents["data"][0]["id"], "build");
    let rule = json!({ "action": "*", "resource": "*", "effect": "allow" });
    assert_eq!(agents["data"][0]["permissions"][0], rule);
    assert_eq!(house.client().get("/api/command").expect(200)["data"][0]["name"], "init");
    assert_eq!(house.client().get("/api/permission/saved").expect(200), json!({ "data": [] }));
    let named = format!("/api/location?location%5Bdirectory%5D={}", house.home().display());
    assert_eq!(house.client().get(&named).expect(200)["directory"], json!(house.home()));
}

#[test]
fn api_session_is_created_read_and_paged() {
    let house = ServerFixture::with_git();
    let client = house.client();
    let empty = json!({ "data": [], "cursor": { "previous": null, "next": null } });
    assert_eq!(client.get("/api/session").expect(200), empty);
    let made =
        client.post("/api/session", &json!({ "location": { "directory": house.project() } }));
    let made = made.expect(200)["data"].clone();
    assert_eq!(made["location"], json!({ "directory": house.project() }));
    assert!(made.get("slug").is_none() && made.get("directory").is_none());
    let path = format!("/api/session/{}", made["id"].as_str().expect("an id"));
    assert_eq!(client.get(&path).expect(200)["data"], made);
    client.post("/session", &json!({ "title": "second" })).expect(200);
    let first = client.get("/api/session?limit=1").expect(200);
    assert_eq!(first["data"].as_array().map(Vec::len), Some(1));
    let next = first["cursor"]["next"].as_str().expect("a cursor");
    let second = client.get(&format!("/api/session?limit=1&cursor={next}")).expect(200);
    assert_ne!(first["data"][0]["id"], second["data"][0]["id"]);
    let found = client.get("/api/session?search=SECOND").expect(200);
    assert_eq!(found["data"][0]["title"], "second");
    let refused = client.get("/api/session?cursor=nonsense").expect(400);
    assert_eq!(refused["_tag"], "InvalidCursorError");
    assert_eq!(client.get("/api/session/active").expect(200), json!({ "data": {} }));
}

#[test]
fn api_switches_agent_and_model() {
    let house = ServerFixture::with_git();
    let client = house.client();
    let made = client.post("/api/session", &json!({})).expect(200)["data"].clone();
    let path = format!("/api/session/{}", made["id"].as_str().expect("an id"));
    let model = json!({ "id": "fake-1", "providerID": "fake" });
    assert_eq!(client.post(&format!("{path}/model"), &json!({ "model": model })).status, 204);
    assert_eq!(client.post(&format!("{path}/agent"), &json!({ "agent": "plan" })).status, 204);
    let shown = client.get(&path).expect(200)["data"].clone();
    assert_eq!((&shown["agent"], &shown["model"]), (&json!("plan"), &model));
    assert_eq!(client.send("POST", &format!("{path}/interrupt"), None).status, 204);
    let waits = client.send("POST", &format!("{path}/wait"), None).expect(503);
    assert_eq!(
        (&waits["_tag"], &waits["service"]),
        (&json!("ServiceUnavailableError"), &json!("session.wait"))
    );
}

#[test]
fn api_errors_have_recorded_tags() {
    let house = ServerFixture::with_git();
    let client = house.client();
    let unknown = json!({ "_tag": "SessionNotFoundError", "message": "Session not found: ses_unknown",
        "sessionID": "ses_unknown" });
    assert_eq!(client.get("/api/session/ses_unknown").expect(404), unknown);
    assert_eq!(client.get("/api/session/ses_unknown/message").expect(404), unknown);
    assert_eq!(client.get("/api/session/ses_unknown/permission").expect(404), unknown);
    let malformed = json!({ "_tag": "InvalidRequestError", "message": "Invalid session ID", "field": "sessionID" });
    assert_eq!(client.get("/api/session/foo").expect(400), malformed);
    let made = client.post("/api/session", &json!({})).expect(200)["data"]["id"].clone();
    let path = format!("/api/session/{}", made.as_str().expect("an id"));
    let wrong = client.post(&format!("{path}/prompt"), &json!({ "x": 1 })).expect(400);
    let wanted = json!({ "_tag": "InvalidRequestError", "message": "Missing key\n  at [\"prompt\"]", "kind": "Payload" });
    assert_eq!(wrong, wanted);
    let missing = client.get(&format!("{path}/message/msg_none")).expect(404);
    assert_eq!(
        (&missing["_tag"], &missing["messageID"]),
        (&json!("MessageNotFoundError"), &json!("msg_none"))
    );
    let missing = client.get(&format!("{path}/permission/per_none")).expect(404);
    assert_eq!(
        (&missing["_tag"], &missing["requestID"]),
        (&json!("PermissionNotFoundError"), &json!("per_none"))
    );
    let refused = client.patch("/api/credential/none", &json!({})).expect(501);
    assert_eq!(refused["_tag"], "NotOfferedError");
}

#[test]
fn api_prompt_is_admitted_and_listed() {
    let house = ServerFixture::with_git();
    house.write_file(
        "opencode.json",
        r#"{"model":"fake/fake-1","provider":{"fake":{"models":{"fake-1":{}}}}}"#,
    );
    let client = house.client();
    let made = client.post("/api/session", &json!({})).expect(200)["data"]["id"].clone();
    let path = format!("/api/session/{}", made.as_str().expect("an id"));
    let prompt = json!({ "prompt": { "text": "hello v2" } });
    let admitted = client.post(&format!("{path}/prompt"), &prompt).expect(200)["data"].clone();
    assert_eq!(
        (&admitted["prompt"], &admitted["delivery"]),
        (&json!({ "text": "hello v2" }), &json!("steer"))
    );
    let listed = client.get(&format!("{path}/message?order=asc")).expect(200);
    let message: &Value = &listed["data"][0];
    assert_eq!(
        (&message["id"], &message["type"], &message["text"]),
        (&admitted["id"], &json!("user"), &json!("hello v2"))
    );
    let one = format!("{path}/message/{}", admitted["id"].as_str().expect("an id"));
    assert_eq!(&client.get(&one).expect(200)["data"], message);
    let context = client.get(&format!("{path}/context")).expect(200);
    assert_eq!(context["data"][0]["id"], admitted["id"]);
}
