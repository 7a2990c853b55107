//! The equipment itself.

use serde_json::json;

use crate::support::ServerFixture;

#[test]
fn session_survives_restart() {
    let house = ServerFixture::with_git();
    let made = house.client().post("/session", &json!({ "title": "kept" })).expect(200);
    let house = house.restart();
    let path = format!("/session/{}", made["id"].as_str().expect("an id"));
    assert_eq!(house.client().get(&path).expect(200)["title"], "kept");
    assert_eq!(house.client().delete(&path).expect(200), true);
    assert_eq!(house.client().get(&path).expect(404)["name"], "NotFoundError");
}

/// Proves R43.
#[test]
fn invalid_idempotency_key_is_rejected() {
    let house = ServerFixture::with_git();
    let long = house.client().with_header("idempotency-key", &"k".repeat(129));
    assert_eq!(long.post("/session", &json!({})).expect(400)["name"], "BadRequest");
    assert_eq!(house.client().get("/session").expect(200), json!([]));
    let fits = house.client().with_header("idempotency-key", &"k".repeat(128));
    let first = fits.post("/session", &json!({})).expect(200);
    assert_eq!(fits.post("/session", &json!({})).expect(200), first);
}
