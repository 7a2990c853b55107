//! Locks, writes and reads of files exhaust neither descriptors nor threads nor memory.

use std::io::Read;

use serde_json::{Value, json};
use turnstone_server::ServerSettings;

use crate::support::{ServerFixture, TurnDriver};

fn house(change: impl FnOnce(&mut ServerSettings)) -> ServerFixture {
    ServerFixture::with_settings(change)
}

fn driver(house: &ServerFixture) -> TurnDriver {
    let made = house.client().post("/session", &json!({ "title": "T" })).expect(200);
    TurnDriver::begin(house.client(), made["id"].as_str().expect("an id"), "go")
}

fn paths(house: &ServerFixture, range: std::ops::Range<usize>) -> Value {
    let name = |nth: usize| house.project().join(format!("f{nth}"));
    json!({ "paths": range.map(name).collect::<Vec<_>>() })
}

#[test]
fn number_of_files_of_a_request_is_limited() {
    let house = house(|_| {});
    let driver = driver(&house);
    driver.post("file/lock", &paths(&house, 0..256)).expect(200);
    driver.send("DELETE", "file/lock", &Value::Null).expect(200);
    let refused = driver.post("file/lock", &paths(&house, 0..257)).expect(400);
    assert!(refused.to_string().contains("256"), "{refused}");
    let file = |nth: usize| json!({ "path": format!("g{nth}"), "text": "", "expected": "absent" });
    let files: Vec<Value> = (0..257).map(file).collect();
    driver.post("file/write", &json!({ "files": files })).expect(400);
    assert!(!house.project().join("g0").exists());
}

#[test]
fn number_of_locks_of_a_server_is_limited() {
    let house = house(|settings| {
        settings.limits.file_locks = 10;
        settings.limits.file_wait_ms = 1;
    });
    let (first, second) = (driver(&house), driver(&house));
    first.post("file/lock", &paths(&house, 0..8)).expect(200);
    let full = second.post("file/lock", &paths(&house, 8..16)).expect(503);
    assert_eq!(full["_tag"], "FileLockLimitError");
    second.post("file/lock", &paths(&house, 8..10)).expect(200);
    // The next lock of a turn takes the place of the one before, and the end of a turn frees it.
    first.post("file/lock", &paths(&house, 0..6)).expect(200);
    second.end();
    first.post("file/lock", &paths(&house, 0..10)).expect(200);
    assert_eq!(
        first.post("file/lock", &paths(&house, 0..11)).expect(503)["_tag"],
        "FileLockLimitError"
    );
}

#[test]
fn waiting_locks_hold_no_threads() {
    let house = house(|settings| {
        settings.limits.file_waiting = 600;
        settings.limits.file_wait_ms = 600_000;
    });
    let (holder, writer) = (driver(&house), driver(&house));
    holder.post("file/lock", &paths(&house, 0..1)).expect(200);
    let client = house.client().with_header("x-turnstone-lease", &writer.lease);
    let path = format!("{}/file/lock", writer.base());
    // More than the runtime has threads for blocking work.
    let wait = |_| client.post_without_reading(&path, &paths(&house, 0..1));
    let waiting: Vec<_> = (0..600).map(wait).collect();
    house.client().get("/session").expect(200);
    house.client().post("/session", &json!({ "title": "another" })).expect(200);
    // They do not keep the server from ending either.
    drop(house);
    drop(waiting);
}

#[test]
fn number_of_waiting_locks_is_limited() {
    let house = house(|settings| settings.limits.file_waiting = 0);
    let (holder, other) = (driver(&house), driver(&house));
    house.write_file("f0", "x");
    other.post("file/read", &json!({ "path": "f0" })).expect(200);
    holder.post("file/lock", &paths(&house, 0..1)).expect(200);
    let full = other.post("file/lock", &paths(&house, 0..2)).expect(503);
    assert_eq!(full["_tag"], "FileLockLimitError");
    let write = json!({ "files": [{ "path": "f0", "text": "y" }] });
    assert_eq!(other.post("file/write", &write).expect(503)["_tag"], "FileLockLimitError");
    other.post("file/lock", &paths(&house, 1..2)).expect(200);
}

/// Answers that nobody collects do not add up.
#[test]
fn file_reads_share_a_budget_of_bytes() {
    let house = house(|settings| {
        settings.limits.file_read_bytes = 30 << 20;
        settings.limits.file_wait_ms = 1;
    });
    house.write_file("big", &"a".repeat(12 << 20));
    house.write_file("small", "a");
    let driver = driver(&house);
    let client = house.client().with_header("x-turnstone-lease", &driver.lease);
    let path = format!("{}/file/read", driver.base());
    let ask = json!({ "path": "big" });
    let mut held = client.post_without_reading(&path, &ask);
    let mut status = [0; 12];
    held.read_exact(&mut status).expect("an answer begins");
    assert_eq!(String::from_utf8_lossy(&status[9..]), "200");
    assert_eq!(driver.post("file/read", &ask).expect(503)["_tag"], "FileReadBusyError");
    driver.post("file/read", &json!({ "path": "small" })).expect(200);
    drop(held);
    while driver.post("file/read", &ask).status == 503 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn impossible_file_names_are_bad_requests() {
    let house = house(|_| {});
    house.write_file("a.txt", "a");
    std::os::unix::fs::symlink("loop", house.project().join("loop")).expect("linked");
    let driver = driver(&house);
    let step = driver.step();
    for name in ["a.txt/", "a.txt/x", "a.txt/../../x", "a\0b", "", "loop", "loop/x"] {
        let read = driver.post("file/read", &json!({ "path": name }));
        assert_eq!(read.status, 400, "{name:?}: {}", read.text());
        let file = json!({ "path": name, "text": "x", "expected": "absent" });
        let written = driver.post("file/write", &json!({ "files": [file] }));
        assert_eq!(written.status, 400, "{name:?}: {}", written.text());
        let tool = json!({ "messageID": step, "callID": name, "tool": "t", "input": {},
            "touches": { "paths": [name] } });
        let begun = driver.post("tool", &tool);
        assert!(matches!(begun.status, 200 | 400), "{name:?}: {}", begun.text());
    }
    let lock = format!("{}/a.txt/x", house.project().display());
    assert_eq!(driver.post("file/lock", &json!({ "paths": [lock] })).status, 400);
}

#[test]
fn file_that_is_named_twice_is_refused_as_such() {
    let house = house(|_| {});
    let driver = driver(&house);
    let file = |path: &str| json!({ "path": path, "text": path, "expected": "absent" });
    let twice = json!({ "files": [file("a"), file("./a")] });
    let refused = driver.post("file/write", &twice).expect(400);
    assert!(refused.to_string().contains("named twice"), "{refused}");
    assert!(!house.project().join("a").exists());
}
