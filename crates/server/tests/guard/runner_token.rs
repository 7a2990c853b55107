//! What a runner may do with its token, and that no other token is worth anything.

use serde_json::{Value, json};

use crate::support::{ServerFixture, TestClient, TurnDriver};

const TOKEN: &str = "x-turnstone-token";

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A runner of the house: its client and its id.
fn runner(house: &ServerFixture) -> (TestClient, String) {
    let made = house.client().post("/turnstone/runner", &json!({ "name": "r" })).expect(200);
    (house.client().with_header(TOKEN, &text(&made["token"])), text(&made["runner"]["id"]))
}

fn session(house: &ServerFixture) -> String {
    text(&house.client().post("/session", &json!({ "title": "T" })).expect(200)["id"])
}

/// A house in which every `bash` is asked about.
fn house() -> ServerFixture {
    let house = ServerFixture::new();
    house.write_file("opencode.json", r#"{"permission": {"bash": "ask"}}"#);
    house
}

fn bash_permission() -> Value {
    json!({ "permission": "bash", "patterns": ["make"], "always": ["make *"], "waits": true })
}

#[test]
fn runner_token_is_random_and_not_listed() {
    let house = ServerFixture::new();
    let register = || house.client().post("/turnstone/runner", &json!({ "name": "r" })).expect(200);
    let tokens = [text(&register()["token"]), text(&register()["token"])];
    assert_ne!(tokens[0], tokens[1]);
    assert!(tokens.iter().all(|token| token.len() >= 64), "{tokens:?}");
    let listed = house.client().get("/turnstone/runner").text();
    assert!(tokens.iter().all(|token| !listed.contains(token.as_str())), "{listed}");
}

#[test]
fn invalid_token_is_rejected() {
    let house = ServerFixture::new();
    let (known, id) = runner(&house);
    known.get("/session").expect(200);
    let made = house.client().post("/turnstone/runner", &json!({ "name": "r" })).expect(200);
    let token = text(&made["token"]);
    let cut = &token[..token.len() - 1];
    for wrong in ["", "token_", "token_0", cut, &format!("{token}0"), &token.to_uppercase()] {
        let client = house.client().with_header(TOKEN, wrong);
        for path in ["/session", "/global/health", "/doc", "/no/such/route"] {
            assert_eq!(client.get(path).expect(401)["_tag"], "InvalidTokenError", "{wrong:?}");
        }
        client.post("/session", &json!({})).expect(401);
    }
    let twice = house.client().with_header(TOKEN, &token).with_header(TOKEN, &token);
    twice.get("/session").expect(401);
    // It is worth something only as long as its runner is known.
    known.delete(&format!("/turnstone/runner/{id}")).expect(200);
    known.get("/session").expect(401);
    let house = house.restart();
    house.client().with_header(TOKEN, &token).get("/session").expect(401);
}

#[test]
fn runner_drives_turns_but_cannot_answer_permissions() {
    let house = house();
    let session = session(&house);
    let (client, id) = runner(&house);
    let driver = TurnDriver::begin(&client, &session, "go");
    let answer = driver.step();
    driver.tool(&answer, &json!("nothing"), || {});
    driver.end_step(&answer, "tool-calls");
    let asked = driver.post("permission", &bash_permission()).expect(200);
    assert_eq!(asked["verdict"], "pending");
    let request = text(&asked["requestID"]);
    for (path, body) in [
        (format!("/permission/{request}/reply"), json!({ "reply": "once" })),
        (format!("/session/{session}/permissions/{request}"), json!({ "response": "always" })),
        (format!("/api/session/{session}/permission/{request}/reply"), json!({ "reply": "once" })),
    ] {
        for client in [client.clone(), client.with_header("x-turnstone-actor", "ada")] {
            assert_eq!(client.post(&path, &body).expect(403)["_tag"], "NotAllowedError", "{path}");
        }
    }
    let state = client.get(&format!("/turnstone/session/{session}/request/{request}")).expect(200);
    assert_eq!(state["is"], "pending");
    let log = house.client().get("/turnstone/log?limit=500").expect(200);
    let events = log["events"].as_array().expect("a list");
    let asked = events.iter().find(|event| event["kind"] == "request.asked").expect("in the log");
    assert_eq!(asked["actor"], format!("runner {id}"), "who asked is stored");

    let reply = format!("/permission/{request}/reply");
    house.client().post(&reply, &json!({ "reply": "once" })).expect(200);
    driver.post("continue", &json!({})).expect(200);
    driver.end();
}

#[test]
fn a_runner_cannot_answer_questions() {
    let house = ServerFixture::new();
    let session = session(&house);
    let (client, _) = runner(&house);
    let driver = TurnDriver::begin(&client, &session, "go");
    let question = json!({ "questions": [{ "question": "Which?", "header": "Which",
        "options": [{ "label": "A", "description": "a" }] }], "waits": true });
    let request = text(&driver.post("question", &question).expect(200)["requestID"]);
    let answers = json!({ "answers": [["A"]] });
    for path in ["/question", &format!("/api/session/{session}/question")] {
        client.post(&format!("{path}/{request}/reply"), &answers).expect(403);
        client.send("POST", &format!("{path}/{request}/reject"), None).expect(403);
    }
    house.client().post(&format!("/question/{request}/reply"), &answers).expect(200);
}

#[test]
fn runner_cannot_set_rules_or_prompt_as_person() {
    let house = house();
    let session = session(&house);
    let (client, id) = runner(&house);
    let rule = |action: &str| json!([{ "permission": "bash", "pattern": "*", "action": action }]);
    let path = format!("/session/{session}");
    for action in ["allow", "ask", "deny"] {
        client.patch(&path, &json!({ "permission": rule(action) })).expect(403);
    }
    client.patch(&path, &json!({ "title": "A title" })).expect(200);
    client.patch(&path, &json!({ "time": { "archived": 1 } })).expect(403);
    for action in ["allow", "ask"] {
        client.post("/session", &json!({ "permission": rule(action) })).expect(403);
    }
    let child = json!({ "parentID": session, "permission": rule("deny") });
    client.post("/session", &child).expect(200);
    let prompt = json!({ "parts": [{ "type": "text", "text": "hi" }], "tools": { "bash": true } });
    for (path, body) in [
        (format!("{path}/message"), prompt.clone()),
        (format!("{path}/prompt_async"), prompt),
        (format!("{path}/shell"), json!({ "agent": "build", "command": "id" })),
        (format!("{path}/abort"), json!({})),
        ("/tui/submit-prompt".to_owned(), json!({})),
        ("/sync/replay".to_owned(), json!({})),
        ("/turnstone/runner".to_owned(), json!({ "name": "other", "directory": "/" })),
    ] {
        assert_eq!(client.post(&path, &body).expect(403)["_tag"], "NotAllowedError", "{path}");
    }
    client.delete("/api/permission/saved/psv_0").expect(403);
    let (_, other) = runner(&house);
    client.get(&format!("/turnstone/runner/{other}/inbox")).expect(403);
    client.delete(&format!("/turnstone/runner/{other}")).expect(403);
    client.get(&format!("/turnstone/runner/{id}/inbox")).expect(200);
}

#[test]
fn runner_is_limited_to_its_directory() {
    let house = ServerFixture::new();
    let session = session(&house);
    let below = house.project().join("below");
    fs_err::create_dir(&below).expect("made");
    let register = json!({ "name": "r", "directory": below });
    let made = house.client().post("/turnstone/runner", &register).expect(200);
    let client = house.client().with_header(TOKEN, &text(&made["token"]));
    for what in ["turn", "resume"] {
        let path = format!("/turnstone/session/{session}/{what}");
        assert_eq!(client.post(&path, &json!({})).expect(403)["_tag"], "NotAllowedError");
    }
    client.post("/session", &json!({})).expect(403);
}

#[test]
fn runner_needs_permission_to_undo_or_delete() {
    let house = ServerFixture::new();
    let session = session(&house);
    let (client, _) = runner(&house);
    let driver = TurnDriver::begin(&client, &session, "go");
    let answer = driver.step();
    let file = house.project().join("f");
    driver.tool(&answer, &json!({ "paths": ["f"] }), || {
        fs_err::write(&file, "x").expect("written");
    });
    driver.end_step(&answer, "stop");
    driver.end();
    let base = format!("/turnstone/session/{session}");
    house.client().post(&format!("{base}/checkpoint"), &json!({ "name": "noon" })).expect(200);
    let asked = |answer: &Value| assert_eq!(answer["_tag"], "PermissionAskedError", "{answer}");
    asked(&client.post(&format!("{base}/undo"), &json!({})).expect(409));
    asked(&client.delete(&format!("{base}/checkpoint/noon")).expect(409));
    let named = client.with_header("x-request-id", "deletion");
    let deleted = named.delete(&format!("/session/{session}")).expect(409);
    asked(&deleted);
    assert!(file.exists());
    let listed = house.client().get(&format!("{base}/checkpoint")).expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));

    // A person may, and an answer of a person lets the runner go on.
    let gone = house.client().delete(&format!("{base}/checkpoint/noon")).expect(200);
    assert_eq!(gone[0]["name"], "noon");
    house.client().delete(&format!("{base}/checkpoint/noon")).expect(404);
    let reply = format!("/permission/{}/reply", text(&deleted["permissionID"]));
    house.client().post(&reply, &json!({ "reply": "once" })).expect(200);
    named.delete(&format!("/session/{session}")).expect(200);
    house.client().get(&format!("/session/{session}")).expect(404);
}

#[test]
fn deny_rule_blocks_deletion_by_the_person() {
    let house = ServerFixture::new();
    house.write_file("turnstone.json", r#"{"permission": {"delete": "deny"}}"#);
    let session = session(&house);
    let refused = house.client().delete(&format!("/session/{session}")).expect(403);
    assert_eq!(refused["_tag"], "NotAllowedError");
    house.client().get(&format!("/session/{session}")).expect(200);
    let log = house.client().get("/turnstone/log?limit=500").expect(200);
    let events = log["events"].as_array().expect("a list");
    assert!(events.iter().any(|event| event["kind"] == "request.resolved"), "it is recorded");
}

#[test]
fn user_deny_rules_override_project_and_session() {
    let house = ServerFixture::new();
    let own = house.home().join(".config/opencode");
    fs_err::create_dir_all(&own).expect("made");
    let denied = r#"{"permission": {"bash": {"rm *": "deny"}}}"#;
    fs_err::write(own.join("opencode.json"), denied).expect("written");
    let loose = json!({ "permission": { "bash": "allow" },
        "agent": { "build": { "permission": { "bash": "allow" } } } });
    house.write_file("opencode.json", &loose.to_string());
    house.write_file("turnstone.json", r#"{"permission": {"bash": "allow"}}"#);
    house.trust_project();
    let session = session(&house);
    let allow = json!({ "permission": [{ "permission": "*", "pattern": "*", "action": "allow" }] });
    house.client().patch(&format!("/session/{session}"), &allow).expect(200);
    let ask = |resource: &str| {
        let body = json!({ "action": "bash", "resources": [resource], "agent": "build" });
        let path = format!("/api/session/{session}/permission");
        text(&house.client().post(&path, &body).expect(200)["data"]["effect"])
    };
    assert_eq!((ask("rm -r x").as_str(), ask("ls").as_str()), ("deny", "allow"));
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let body = json!({ "permission": "bash", "patterns": ["rm x"], "always": ["*"] });
    assert_eq!(driver.post("permission", &body).expect(200)["verdict"], "denied");
}
