//! A server watches the projects in which work begins, and no others.

use serde_json::{Value, json};
use turnstone_core::time::EpochMillis;

use crate::support::{ServerFixture, TurnDriver};
use crate::turn_fixture::session;

fn watched(house: &ServerFixture) -> Value {
    house.wait_until_captured();
    house.client().get("/turnstone/server").expect(200)["watched"].clone()
}

#[test]
fn requests_that_read_watch_nothing() {
    let house = ServerFixture::with_git();
    for path in ["/session", "/project/current", "/file?path=", "/vcs", "/api/session", "/config"] {
        house.client().get(path).expect(200);
    }
    assert_eq!(watched(&house), json!([]));
    session(&house, "T");
    assert_eq!(watched(&house)[0]["state"], "watching");
}

#[test]
fn session_in_newer_shape_is_watched_too() {
    let house = ServerFixture::new();
    house.client().post("/api/session", &json!({})).expect(200);
    assert_eq!(watched(&house)[0]["root"], json!(house.project()));
}

#[test]
fn prompt_watches_the_directory_of_a_known_session() {
    let house = ServerFixture::new();
    let known = session(&house, "T");
    let house = house.restart();
    assert_eq!(watched(&house), json!([]));
    let prompt = json!({ "noReply": true, "parts": [{ "type": "text", "text": "note" }] });
    house.client().post(&format!("/session/{known}/message"), &prompt).expect(200);
    assert_eq!(watched(&house)[0]["root"], json!(house.project()));
}

#[test]
fn steps_of_a_driven_turn_have_snapshots_from_the_start() {
    let house = ServerFixture::with_git();
    let session = session(&house, "T");
    house.wait_until_captured();
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let step = driver.step();
    driver.tool(&step, &json!({ "paths": ["a"] }), || house.write_file("a", "a\n"));
    driver.tool(&step, &json!("anything"), || house.write_file("b", "b\n"));
    let ended = driver.end_step(&step, "stop");
    driver.end();
    let stored = house.client().get(&format!("/session/{session}/message/{step}")).expect(200);
    let parts = stored["parts"].as_array().expect("parts");
    let snapshot = |kind: &str| {
        let part = parts.iter().find(|part| part["type"] == kind);
        part.expect(kind)["snapshot"].clone()
    };
    assert!(snapshot("step-start").is_string() && snapshot("step-start") != ended["snapshot"]);
    assert_eq!(snapshot("step-finish"), ended["snapshot"]);
    let listed = &watched(&house)[0];
    assert_eq!(
        (&listed["state"], &listed["files"], &listed["owner"]),
        (&json!("watching"), &json!(3), &json!(true))
    );
    assert!(listed["memory"].as_u64() > Some(0) && listed["folders"].as_u64() > Some(0));
}

#[test]
fn idle_project_is_released() {
    let house = ServerFixture::new();
    session(&house, "T");
    assert_eq!(watched(&house)[0]["state"], "watching");
    let roots = house.engine().maintenance().watched_roots();
    let much_later = EpochMillis(crate::support::adjustable_now().0 + 24 * 3_600_000);
    assert_eq!(roots.maintain(much_later).released, [house.project()]);
    assert_eq!(watched(&house), json!([]));
}

/// A runner sees its own directory only.
#[test]
fn runner_does_not_see_watched_roots() {
    let house = ServerFixture::new();
    session(&house, "T");
    assert_eq!(watched(&house).as_array().map(Vec::len), Some(1));
    let made = house.client().post("/turnstone/runner", &json!({ "name": "loop" })).expect(200);
    let token = made["token"].as_str().expect("a token");
    let runner = house.client().with_header("x-turnstone-token", token);
    assert_eq!(runner.get("/turnstone/server").expect(200)["watched"], json!([]));
}
