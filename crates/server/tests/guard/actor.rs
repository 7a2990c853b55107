//! Who asks is who is written down, or nothing is done (R43).

use serde_json::json;

use crate::support::ServerFixture;

/// Proves R43.
#[test]
fn invalid_actor_name_is_rejected() {
    let house = ServerFixture::new();
    for name in ["x".repeat(200).as_str(), "a\tb", ""] {
        let client = house.client().with_header("x-turnstone-actor", name);
        let refused = client.post("/session", &json!({})).expect(400);
        assert_eq!(refused["name"], "BadRequest", "{name}");
    }
    assert_eq!(house.client().get("/session").expect(200), json!([]));
    let named = house.client().with_header("x-turnstone-actor", "Zo\u{eb}");
    named.post("/session", &json!({})).expect(200);
    let log = house.client().get("/turnstone/log").expect(200);
    let made = log["events"].as_array().expect("a list").iter();
    let who: Vec<_> =
        made.filter(|e| e["kind"] == "session.created").map(|e| &e["actor"]).collect();
    assert_eq!(who, [&json!("Zo\u{eb}")]);
}

#[test]
fn actor_header_only_reduces_permissions() {
    let house = ServerFixture::new();
    let made = house.client().post("/session", &json!({})).expect(200);
    let session = made["id"].as_str().expect("an id");
    let path = format!("/session/{session}");
    let allow = json!({ "permission": [{ "permission": "*", "pattern": "*", "action": "allow" }] });
    let named = house.client().with_header("x-turnstone-actor", "bob");
    assert_eq!(named.patch(&path, &allow).expect(403)["_tag"], "NotAllowedError");
    // What an import brought belongs to no client.
    for reserved in ["import", "turnstone"] {
        let taken = house.client().with_header("x-turnstone-actor", reserved);
        taken.patch(&path, &allow).expect(400);
    }
    let prompt = json!({ "noReply": true, "tools": { "bash": true },
        "parts": [{ "type": "text", "text": "hi" }] });
    assert_eq!(
        named.post(&format!("{path}/message"), &prompt).expect(403)["_tag"],
        "NotAllowedError"
    );
    let replayed = json!({ "directory": ".", "events": [] });
    assert_eq!(named.post("/sync/replay", &replayed).expect(403)["_tag"], "NotAllowedError");
    let asked = named.delete(&path).expect(409);
    assert_eq!(asked["_tag"], "PermissionAskedError");
    let reply = format!("/permission/{}/reply", asked["permissionID"].as_str().expect("an id"));
    let once = json!({ "reply": "once" });
    assert_eq!(named.post(&reply, &once).expect(403)["_tag"], "NotAllowedError");
    let runner = house.client().with_header("x-turnstone-actor", "runner run_1");
    runner.post("/session", &json!({})).expect(400);
    // The person's own name is the person.
    let log = house.client().get("/turnstone/log?limit=500").expect(200);
    let person = log["events"][0]["actor"].as_str().expect("a name").to_owned();
    let same = house.client().with_header("x-turnstone-actor", &person);
    same.post(&reply, &once).expect(200);
    same.delete(&path).expect(200);
}

/// Proves R43.
#[test]
fn every_event_records_the_client_program() {
    let house = ServerFixture::new();
    let client = house
        .client()
        .with_header("x-turnstone-actor", "grace")
        .with_header("user-agent", "agent/1");
    let made = client.post("/session", &json!({})).expect(200);
    let log = house.client().get("/turnstone/log?limit=500").expect(200);
    let events = log["events"].as_array().expect("a list").clone();
    let of_session: Vec<_> =
        events.iter().filter(|event| event["session"] == made["id"]).cloned().collect();
    assert!(!of_session.is_empty());
    for event in of_session {
        assert_eq!((&event["actor"], &event["client"]), (&json!("grace"), &json!("http agent/1")));
    }
}
