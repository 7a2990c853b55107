//! Files a prompt names stay below the project's root (R16), and a failure is an event, not an answer.

use serde_json::{Value, json};

use crate::support::ServerFixture;
use crate::{messages, session};

/// Asks for a file, wants no answer, and returns the parts that are stored.
fn parts(house: &ServerFixture, file: &Value) -> Vec<Value> {
    let id = session(house);
    let mut file = file.clone();
    file["type"] = "file".into();
    let body = json!({ "noReply": true, "parts": [file] });
    house.client().post(&format!("/session/{id}/message"), &body).expect(200);
    let stored = messages(house, &id);
    stored[0]["parts"].as_array().expect("parts").clone()
}

fn url(house: &ServerFixture, name: &str) -> String {
    format!("file://{}/{name}", house.project().display())
}

#[test]
fn text_file_is_numbered_and_range_is_kept() {
    let house = ServerFixture::new();
    house.write_file("a b.txt", "one\ntwo\nthree\n");
    let file =
        json!({ "mime": "text/plain", "filename": "a b.txt", "url": url(&house, "a%20b.txt") });
    let found = parts(&house, &file);
    assert_eq!(found.len(), 3);
    assert!(found[1]["text"].as_str().expect("text").contains("\n1: one\n2: two\n3: three\n"));
    assert_eq!((&found[1]["synthetic"], &found[2]["type"]), (&true.into(), &"file".into()));
    let file = json!({ "mime": "text/plain", "url": url(&house, "a%20b.txt?start=2&end=2") });
    let found = parts(&house, &file);
    let text = found[1]["text"].as_str().expect("text");
    assert!(text.contains("2: two") && !text.contains("three"), "{text}");
}

#[test]
fn data_urls_are_kept_or_shown() {
    let house = ServerFixture::new();
    house.write_file("a.png", "\u{89}PNG");
    let file = json!({ "mime": "text/plain", "filename": "x.txt", "url": "data:text/plain;base64,aGVsbG8=" });
    let found = parts(&house, &file);
    assert_eq!(found[1]["text"], "hello");
    assert_eq!(found[2]["url"], "data:text/plain;base64,aGVsbG8=");
    let file = json!({ "mime": "image/png", "filename": "a.png", "url": url(&house, "a.png") });
    let found = parts(&house, &file);
    assert!(found[1]["url"].as_str().expect("a url").starts_with("data:image/png;base64,"));
}

/// Proves R16.
#[test]
fn unreadable_files_are_reported_and_prompt_succeeds() {
    let house = ServerFixture::new();
    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    fs_err::write(house.sibling("secret"), "hidden").expect("written");
    std::os::unix::fs::symlink(house.sibling("secret"), house.project().join("link"))
        .expect("linked");
    std::os::unix::fs::symlink(house.sibling("."), house.project().join("up")).expect("linked");
    house.write_file("bin", "a\u{0}b");
    house.write_file("real.txt", "inside\n");
    std::os::unix::fs::symlink("real.txt", house.project().join("in")).expect("linked");
    let outside = format!("file://{}", house.sibling("secret").display());
    for (url, why) in [
        (url(&house, "none"), "File not found"),
        (outside, "outside of the project"),
        (url(&house, "link"), "outside of the project"),
        (url(&house, "up/secret"), "outside of the project"),
        (url(&house, "../secret"), "outside of the project"),
        (url(&house, "%2e%2e/secret"), "outside of the project"),
        (url(&house, "bin"), "binary"),
        ("file:///etc/passwd".to_owned(), "outside of the project"),
    ] {
        for mime in ["text/plain", "image/png", "application/x-directory"] {
            if why == "binary" && mime == "image/png" {
                continue;
            }
            let found = parts(&house, &json!({ "mime": mime, "url": url }));
            let text = Value::Array(found.clone()).to_string();
            assert!(text.contains(why), "{url} as {mime}: {text}");
            assert!(!text.contains("hidden"), "{url} as {mime} leaks: {text}");
            assert!(found.iter().all(|part| part["type"] == "text"), "{text}");
            let event = events.wait_for("session.error");
            let reported = event["properties"]["error"]["data"]["message"].as_str().expect("words");
            assert!(reported.contains(why), "{reported}");
        }
    }
    // A link that stays inside is what it leads to.
    let found = parts(&house, &json!({ "mime": "text/plain", "url": url(&house, "in") }));
    assert!(found[1]["text"].as_str().expect("text").contains("1: inside"));
}

#[test]
fn pipes_and_devices_in_prompts_are_rejected() {
    let house = ServerFixture::new();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, house.project().join("pipe"), fifo, mode, 0)
        .expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", house.project().join("zero")).expect("linked");
    for name in ["pipe", "zero"] {
        let found = parts(&house, &json!({ "mime": "text/plain", "url": url(&house, name) }));
        let reported = found.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>();
        let why = reported.join("\n");
        assert!(why.contains("neither a file") || why.contains("outside"), "{name}: {why}");
    }
}
