//! Permissions over the newer routes: asked for outside of a turn, approved permanently, revoked.

use serde_json::{Value, json};

use crate::support::ServerFixture;

fn session(house: &ServerFixture) -> String {
    let made = house.client().post("/api/session", &json!({})).expect(200);
    made["data"]["id"].as_str().expect("an id").to_owned()
}

fn touch_permission(file: &str) -> Value {
    json!({ "action": "bash", "resources": [format!("touch {file}")], "save": ["touch *"],
        "metadata": { "command": format!("touch {file}") },
        "source": { "type": "tool", "messageID": "msg_a", "callID": "c" } })
}

/// A server on which every command needs permission.
fn house() -> (ServerFixture, String) {
    let house = ServerFixture::with_git();
    house.write_file("opencode.json", r#"{"permission":{"bash":"ask","webfetch":"deny"}}"#);
    let session = session(&house);
    (house, session)
}

fn saved(house: &ServerFixture) -> Vec<Value> {
    let listed = house.client().get("/api/permission/saved").expect(200);
    listed["data"].as_array().expect("a list").clone()
}

#[test]
fn permission_rules_decide_or_ask_durably() {
    let (house, id) = house();
    let path = format!("/api/session/{id}/permission");
    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    let asked = house.client().post(&path, &touch_permission("a")).expect(200)["data"].clone();
    assert_eq!(asked["effect"], "ask");
    let request = asked["id"].as_str().expect("an id").to_owned();
    let reported = events.wait_for("permission.asked");
    assert_eq!(reported["properties"]["id"], asked["id"]);
    assert_eq!(reported["properties"]["tool"], json!({ "messageID": "msg_a", "callID": "c" }));

    let judged = |action: &str| {
        let body = json!({ "action": action, "resources": ["x"] });
        house.client().post(&path, &body).expect(200)["data"]["effect"].clone()
    };
    assert_eq!((judged("read"), judged("webfetch")), (json!("allow"), json!("deny")));
    let house = house.restart();
    let listed = house.client().get(&path).expect(200);
    let shown = &listed["data"][0];
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!((&shown["id"], &shown["action"]), (&json!(request), &json!("bash")));
    assert_eq!(shown["resources"], json!(["touch a"]));
    assert_eq!(shown["source"], touch_permission("a")["source"]);

    // Asking again under its name asks nobody twice; once it is answered the response has the answer.
    let named = |file: &str| {
        let mut body = touch_permission(file);
        body["id"] = json!(request);
        house.client().post(&path, &body)
    };
    assert_eq!(named("a").expect(200)["data"]["effect"], "ask");
    assert_eq!(named("b").expect(409)["_tag"], "ConflictError");
    let reply = format!("{path}/{request}/reply");
    assert_eq!(house.client().post(&reply, &json!({ "reply": "once" })).status, 204);
    assert_eq!(named("a").expect(200)["data"]["effect"], "allow");
    assert_eq!(house.client().get(&path).expect(200), json!({ "data": [] }));
}

#[test]
fn saved_approvals_are_listed_and_removable() {
    let (house, id) = house();
    let path = format!("/api/session/{id}/permission");
    let asked =
        house.client().post(&path, &touch_permission("a")).expect(200)["data"]["id"].clone();
    let reply = format!("{path}/{}/reply", asked.as_str().expect("an id"));
    assert_eq!(house.client().post(&reply, &json!({ "reply": "always" })).status, 204);
    let listed = saved(&house);
    let project = house.client().get("/project/current").expect(200)["id"].clone();
    let name = listed[0]["id"].clone();
    let wanted =
        json!([{ "id": name, "projectID": project, "action": "bash", "resource": "touch *" }]);
    assert_eq!(json!(listed), wanted);
    let effect = |file: &str| {
        house.client().post(&path, &touch_permission(file)).expect(200)["data"]["effect"].clone()
    };
    assert_eq!(effect("b"), "allow");

    let gone = format!("/api/permission/saved/{}", name.as_str().expect("an id"));
    let keyed = house.client().with_header("idempotency-key", "f");
    assert_eq!(keyed.delete(&gone).status, 204);
    assert_eq!(keyed.delete(&gone).status, 204, "the first answer");
    assert_eq!(house.client().delete(&gone).expect(404)["_tag"], "NotFoundError");
    assert_eq!(saved(&house), Vec::<Value>::new());
    assert_eq!(effect("c"), "ask");
    let house = house.restart();
    assert_eq!(saved(&house), Vec::<Value>::new());
}

#[test]
fn invalid_permission_request_asks_nothing() {
    let (house, id) = house();
    let path = format!("/api/session/{id}/permission");
    let mut source = touch_permission("a");
    source["source"]["type"] = json!("agent");
    for wrong in [
        json!({}),
        json!({ "action": "bash" }),
        json!({ "action": "bash", "resources": "x" }),
        json!({ "action": "bash", "resources": [1] }),
        json!({ "action": "bash", "resources": [], "id": "nope" }),
        source,
    ] {
        let refused = house.client().post(&path, &wrong).expect(400);
        assert_eq!(refused["_tag"], "InvalidRequestError", "{wrong}");
    }
    let unknown =
        house.client().post("/api/session/ses_unknown/permission", &touch_permission("a"));
    assert_eq!(unknown.expect(404)["_tag"], "SessionNotFoundError");
    let stale =
        house.client().with_header("if-match", "\"99\"").post(&path, &touch_permission("a"));
    assert_eq!(stale.expect(409)["_tag"], "StaleError", "R43");
    // Without a resource it is judged as if for anything, and nothing passes for want of a name.
    let anything = house.client().post(&path, &json!({ "action": "bash", "resources": [] }));
    assert_eq!(anything.expect(200)["data"]["effect"], "ask");
}
