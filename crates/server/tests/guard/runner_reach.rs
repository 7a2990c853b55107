//! What a runner sees and touches: its directory and the sessions in it, nothing else.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{ServerFixture, TestClient};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A runner of a directory below the project, whose requests name that directory.
fn runner_below(house: &ServerFixture) -> TestClient {
    let below = house.project().join("below");
    fs_err::create_dir(&below).expect("made");
    let body = json!({ "name": "r", "directory": below });
    let made = house.client().post("/turnstone/runner", &body).expect(200);
    house
        .client()
        .with_header("x-turnstone-token", &text(&made["token"]))
        .with_header("x-opencode-directory", &below.to_string_lossy())
}

fn new_session(house: &ServerFixture, directory: &Path) -> String {
    let path = format!("/session?directory={}", directory.display());
    text(&house.client().post(&path, &json!({ "title": "T" })).expect(200)["id"])
}

#[test]
fn runner_reads_only_what_is_listed_for_runners() {
    let house = ServerFixture::with_git();
    let runner = runner_below(&house);
    let (above, below) = (house.project(), house.project().join("below"));
    fs_err::write(below.join("x"), "x").expect("written");
    house.write_file("x", "x");
    let (outside, inside) = (new_session(&house, &above), new_session(&house, &below));
    for path in [
        "/turnstone/log",
        "/turnstone/search?q=T",
        "/turnstone/size",
        "/turnstone/runner",
        "/experimental/session",
        "/experimental/worktree",
        "/api/session",
        "/api/session/active",
        "/api/permission/request",
        "/api/permission/saved",
        "/event",
        "/global/event",
        "/api/event",
        "/global/config",
        "/project",
    ] {
        assert_eq!(runner.get(path).expect(403)["_tag"], "NotAllowedError", "{path}");
    }
    for path in ["/global/health", "/api/health", "/doc", "/turnstone/server"] {
        runner.get(path).expect(200);
    }
    for path in ["/session", "/file/content?path=x", "/find/file?query=x", "/permission", "/vcs"] {
        let separator = if path.contains('?') { '&' } else { '?' };
        for directory in [above.as_path(), Path::new("/etc"), Path::new("/does/not/exist")] {
            let path = format!("{path}{separator}directory={}", directory.display());
            assert_eq!(runner.get(&path).expect(403)["_tag"], "NotAllowedError", "{path}");
        }
        runner.get(path).expect(200);
    }
    // Its list holds its sessions, whatever else of the project the query asks for.
    for query in ["", "?scope=project", "?path=."] {
        let listed = runner.get(&format!("/session{query}")).expect(200);
        let ids: Vec<&Value> =
            listed.as_array().expect("a list").iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [&json!(inside)], "{query}");
    }
    runner.get(&format!("/session/{inside}/message")).expect(200);
    runner.get(&format!("/session/{outside}/message")).expect(403);
    assert_eq!(house.client().get("/turnstone/log").status, 200, "a person reads everything");
}

#[test]
fn runner_cannot_leave_its_directory_by_a_link() {
    let house = ServerFixture::new();
    let runner = runner_below(&house);
    let link = house.project().join("below/link");
    std::os::unix::fs::symlink("/etc", &link).expect("made");
    let path = format!("/file/content?path=hostname&directory={}", link.display());
    runner.get(&path).expect(403);
}

#[test]
fn runner_cannot_attach_a_session_to_a_parent_outside_its_directory() {
    let house = ServerFixture::new();
    let runner = runner_below(&house);
    let outside = new_session(&house, &house.project());
    let inside = new_session(&house, &house.project().join("below"));
    runner.post("/session", &json!({ "parentID": outside })).expect(403);
    runner.post("/session", &json!({ "parentID": inside })).expect(200);
    let children = house.client().get(&format!("/session/{outside}/children")).expect(200);
    assert_eq!(children, json!([]));
}

#[test]
fn runner_token_is_not_stored_under_an_idempotency_key() {
    let house = ServerFixture::new();
    let keyed = house.client().with_header("idempotency-key", "k");
    let register = || keyed.post("/turnstone/runner", &json!({ "name": "r" }));
    let tokens = [register(), register()].map(|made| {
        assert_eq!(made.header("idempotent-replayed"), None);
        text(&made.expect(200)["token"])
    });
    assert_ne!(tokens[0], tokens[1], "a repeat registers another runner");
}

#[test]
fn answer_lets_one_request_of_the_same_actor_and_body_pass() {
    let house = ServerFixture::new();
    let session = new_session(&house, &house.project());
    let prompt = json!({ "noReply": true, "parts": [{ "type": "text", "text": "one" }] });
    let made = house.client().post(&format!("/session/{session}/message"), &prompt).expect(200);
    let (message, part) = (text(&made["info"]["id"]), text(&made["parts"][0]["id"]));
    let path = format!("/session/{session}/message/{message}/part/{part}");
    let body = |words: &str| {
        json!({ "id": part, "sessionID": session, "messageID": message, "type": "text",
            "text": words })
    };
    let bob = house.client().with_header("x-turnstone-actor", "bob");
    let asked = bob.patch(&path, &body("two")).expect(409);
    let id = text(&asked["permissionID"]);
    let reply = json!({ "reply": "once" });
    house.client().post(&format!("/permission/{id}/reply"), &reply).expect(200);
    let name = id.trim_start_matches("per_");
    let bob = bob.with_header("x-request-id", name);
    let carol =
        house.client().with_header("x-turnstone-actor", "carol").with_header("x-request-id", name);
    assert_eq!(carol.patch(&path, &body("two")).expect(409)["_tag"], "PermissionAskedError");
    bob.patch(&path, &body("three")).expect(409);
    bob.delete(&path).expect(409);
    bob.patch(&path, &body("two")).expect(200);
    house.client().patch(&path, &body("one")).expect(200);
    assert_eq!(bob.patch(&path, &body("two")).expect(409)["_tag"], "PermissionAskedError");
}
