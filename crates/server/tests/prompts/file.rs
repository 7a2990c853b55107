//! Files a prompt names stay below the project's root (R16), and a failure is told, not answered.

use serde_json::{Value, json};

use crate::support::House;
use crate::{messages, session};

/// Asks for a file, wants no answer, and returns the parts that are stored.
fn parts(house: &House, file: &Value) -> Vec<Value> {
    let id = session(house);
    let mut file = file.clone();
    file["type"] = "file".into();
    let body = json!({ "noReply": true, "parts": [file] });
    house.client().post(&format!("/session/{id}/message"), &body).expect(200);
    let stored = messages(house, &id);
    stored[0]["parts"].as_array().expect("parts").clone()
}

fn url(house: &House, name: &str) -> String {
    format!("file://{}/{name}", house.project().display())
}

#[test]
fn a_text_is_shown_with_its_lines_and_a_range_is_kept() {
    let house = House::new();
    house.put("a b.txt", "one\ntwo\nthree\n");
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
fn what_carries_its_bytes_is_kept_or_shown() {
    let house = House::new();
    house.put("a.png", "\u{89}PNG");
    let file = json!({ "mime": "text/plain", "filename": "x.txt", "url": "data:text/plain;base64,aGVsbG8=" });
    let found = parts(&house, &file);
    assert_eq!(found[1]["text"], "hello");
    assert_eq!(found[2]["url"], "data:text/plain;base64,aGVsbG8=");
    let file = json!({ "mime": "image/png", "filename": "a.png", "url": url(&house, "a.png") });
    let found = parts(&house, &file);
    assert!(found[1]["url"].as_str().expect("a url").starts_with("data:image/png;base64,"));
}

#[test]
fn what_is_missing_or_outside_is_told_and_the_prompt_still_succeeds_r16() {
    let house = House::new();
    let mut events = house.client().stream("/event");
    events.until("server.connected");
    fs_err::write(house.beside("secret"), "hidden").expect("written");
    std::os::unix::fs::symlink(house.beside("secret"), house.project().join("link"))
        .expect("linked");
    std::os::unix::fs::symlink(house.beside("."), house.project().join("up")).expect("linked");
    house.put("bin", "a\u{0}b");
    house.put("real.txt", "inside\n");
    std::os::unix::fs::symlink("real.txt", house.project().join("in")).expect("linked");
    let outside = format!("file://{}", house.beside("secret").display());
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
            let event = events.until("session.error");
            let told = event["properties"]["error"]["data"]["message"].as_str().expect("words");
            assert!(told.contains(why), "{told}");
        }
    }
    // A link that stays inside is what it leads to.
    let found = parts(&house, &json!({ "mime": "text/plain", "url": url(&house, "in") }));
    assert!(found[1]["text"].as_str().expect("text").contains("1: inside"));
}

#[test]
fn pipes_and_devices_a_prompt_names_are_refused_at_once() {
    let house = House::new();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, house.project().join("pipe"), fifo, mode, 0)
        .expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", house.project().join("zero")).expect("linked");
    for name in ["pipe", "zero"] {
        let found = parts(&house, &json!({ "mime": "text/plain", "url": url(&house, name) }));
        let told = found.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>();
        let why = told.join("\n");
        assert!(why.contains("neither a file") || why.contains("outside"), "{name}: {why}");
    }
}
