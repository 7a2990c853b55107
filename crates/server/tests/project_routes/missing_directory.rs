//! A directory that is gone takes no history with it, and requests that need its files say so (R39).

use serde_json::json;

use crate::support::{ServerFixture, TurnDriver};

/// Proves R39.
#[test]
fn session_without_directory_is_readable_and_file_routes_explain() {
    let house = ServerFixture::new();
    let place = house.sibling("gone");
    fs_err::create_dir(&place).expect("made");
    let client = house.client().with_header("x-opencode-directory", &place.to_string_lossy());
    let made = client.post("/session", &json!({})).expect(200);
    let id = made["id"].as_str().expect("an id").to_owned();
    let driver = TurnDriver::begin(&client, &id, "write");
    let file = place.join("f");
    let message = driver.step();
    driver.tool(&message, &json!({ "paths": [file] }), || {
        fs_err::write(&file, "x\n").expect("written");
    });
    driver.end_step(&message, "stop");
    driver.end();
    fs_err::remove_dir_all(&place).expect("gone");

    let messages = client.get(&format!("/session/{id}/message")).expect(200);
    let prompt = messages[0]["info"]["id"].clone();
    client.get(&format!("/session/{id}")).expect(200);
    client.get(&format!("/turnstone/session/{id}/timeline")).expect(200);
    let stage = format!("/api/session/{id}/revert/stage");
    for refused in [
        client.get(&format!("/session/{id}/diff")),
        client.post(&format!("/session/{id}/revert"), &json!({ "messageID": prompt })),
        client.post(&stage, &json!({ "messageID": prompt })),
        client.post(&format!("/turnstone/session/{id}/undo"), &json!({ "dryRun": true })),
        client.post(&format!("/turnstone/session/{id}/undo"), &json!({})),
        client.get(&format!("/turnstone/session/{id}/contended")),
    ] {
        let said = refused.expect(409);
        assert_eq!(said["_tag"], "DirectoryGoneError", "{said}");
        assert!(said["message"].as_str().is_some_and(|words| words.contains("relink")), "{said}");
    }
    let after = client.get(&format!("/session/{id}/message")).expect(200);
    assert_eq!(after, messages, "a refusal changes nothing");
    client.delete(&format!("/session/{id}")).expect(200);
}

#[test]
fn directory_header_accepts_encoded_and_raw_paths() {
    let house = ServerFixture::new();
    let place = house.sibling("Zo\u{eb} 100%");
    fs_err::create_dir(&place).expect("made");
    let plain = place.to_string_lossy().into_owned();
    let encoded = plain.replace('%', "%25").replace('\u{eb}', "%C3%AB").replace(' ', "%20");
    for header in [plain.as_str(), encoded.as_str()] {
        let client = house.client().with_header("x-opencode-directory", header);
        assert_eq!(client.get("/path").expect(200)["directory"], plain, "{header}");
        let made = client.post("/session", &json!({})).expect(200);
        assert_eq!(made["directory"], plain, "{header}");
    }
}
