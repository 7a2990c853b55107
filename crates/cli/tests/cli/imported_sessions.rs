//! Imported sessions are sessions like others: their turns, their revert, their diffs and their undo.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::fixture::CliFixture;
use crate::serve_process::{ServeProcess, start_serve};

/// A cut emoji, and what looks like its escape.
const HALVES: &str = r#"say needle \\ud83d \ud83d and \ude00"#;

pub(crate) fn user(id: &str, created: u64, text: &str) -> Value {
    let diff = json!({ "file": format!("{id}.txt"), "patch": "@@\n+x\n", "additions": 1,
        "deletions": 0, "status": "added" });
    json!({
        "info": { "role": "user", "id": format!("msg_{id}"), "sessionID": "ses_imp", "agent": "build",
            "model": { "providerID": "p", "modelID": "m" }, "time": { "created": created },
            "summary": { "diffs": [diff] } },
        "parts": [{ "type": "text", "text": text, "id": format!("prt_{id}"), "sessionID": "ses_imp",
            "messageID": format!("msg_{id}") }],
    })
}

fn answer(case: &CliFixture, (id, parent): (&str, &str), created: u64, state: &Value) -> Value {
    let part = |nth: &str, mut body: Value| {
        body["id"] = format!("prt_{id}{nth}").into();
        (body["sessionID"], body["messageID"]) = ("ses_imp".into(), format!("msg_{id}").into());
        body
    };
    let file = case.path("p").join(format!("{parent}.txt"));
    json!({
        "info": { "role": "assistant", "id": format!("msg_{id}"), "sessionID": "ses_imp", "mode": "build",
            "parentID": format!("msg_{parent}"), "providerID": "p", "modelID": "m", "cost": 0,
            "path": { "cwd": "/", "root": "/" }, "agent": "build",
            "tokens": { "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
            "time": { "created": created, "completed": created + 5 } },
        "parts": [
            part("1", json!({ "type": "tool", "callID": "c", "tool": "bash", "state": state })),
            part("2", json!({ "type": "patch", "hash": "a".repeat(40), "files": [file] })),
        ],
    })
}

/// An export of two turns, with a call that still runs in the second.
fn document(case: &CliFixture) -> Value {
    let done = json!({ "status": "completed", "input": {}, "output": "ok", "title": "t",
        "metadata": {}, "time": { "start": 1010, "end": 1012 } });
    let runs =
        json!({ "status": "running", "input": { "command": "make" }, "time": { "start": 2010 } });
    json!({
        "info": { "id": "ses_imp", "slug": "s", "projectID": "imported", "version": "1",
            "directory": case.path("p"), "title": "Imported", "time": { "created": 1000, "updated": 2020 } },
        "messages": [
            user("a", 1000, "first prompt"), answer(case, ("b", "a"), 1010, &done),
            user("c", 2000, "second prompt"), answer(case, ("d", "c"), 2010, &runs),
        ],
    })
}

fn import(case: &CliFixture, document: &Value) -> Value {
    fs_err::write(case.path("x.json"), document.to_string()).expect("written");
    case.run_json(&["import", "../x.json"])
}

fn reverted_document(case: &CliFixture) -> Value {
    let mut document = document(case);
    document["info"]["revert"] =
        json!({ "messageID": "msg_c", "snapshot": "b".repeat(40), "diff": "diff --git" });
    document
}

fn export(case: &CliFixture) -> Value {
    serde_json::from_str(&case.run(&["export", "ses_imp"]).out).expect("JSON")
}

pub(crate) fn serve(case: &CliFixture) -> ServeProcess {
    start_serve(case, &["serve", "--port", "0", "--json"], |_| {})
}

fn request_text(server: &ServeProcess, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(&server.address).expect("connects");
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, body.to_owned())
}

pub(crate) fn request(
    server: &ServeProcess,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let (status, text) = request_text(server, method, path, &body);
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[test]
fn imported_turns_are_listed_and_undone_by_conversation() {
    let case = CliFixture::empty();
    import(&case, &document(&case));
    let log = case.run_json(&["log", "ses_imp"]);
    let turn = |nth: usize| log["entries"][nth].clone();
    assert_eq!(log["entries"].as_array().map(Vec::len), Some(2), "{log}");
    assert_eq!(
        (&turn(0)["prompt"], &turn(1)["prompt"]),
        (&json!("first prompt"), &json!("second prompt"))
    );
    assert_eq!((&turn(0)["started"], &turn(0)["ended"]), (&json!(1000), &json!(1015)));
    assert_eq!((&turn(0)["state"], &turn(0)["imported"]), (&json!("completed"), &json!(true)));
    assert!(case.run(&["log"]).out.contains("(imported)"));

    let ran = case.run(&["undo", "--session", "ses_imp", "--conversation"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(case.run_json(&["log", "ses_imp"])["head"]["message"], "msg_c");
    let ran = case.run(&["undo", "--conversation"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(case.run_json(&["log", "ses_imp"])["head"]["message"], "msg_a");
    assert_eq!(case.run(&["redo"]).code, 0);
    assert_eq!(case.run_json(&["log", "ses_imp"])["head"]["message"], "msg_c");
}

#[test]
fn files_outside_of_an_imported_session_are_named_as_they_are() {
    let case = CliFixture::empty();
    let mut source = document(&case);
    let files = &mut source["messages"][3]["parts"][1]["files"];
    let inside = files[0].clone();
    let inside = inside.as_str().expect("a path").rsplit('/').next().expect("a name");
    let outside = ["../../x", ".git/config", "/etc/passwd"];
    files.as_array_mut().expect("a list").extend(outside.map(Value::from));
    import(&case, &source);
    let ran = case.run(&["undo", "--session", "ses_imp", "--dry-run"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    for name in outside.iter().chain([&inside]) {
        let is_named = |line: &&str| line.split_whitespace().nth(1) == Some(name);
        assert!(lines.iter().any(is_named), "{name}: {ran:?}");
    }
    let report = case.run(&["undo", "--session", "ses_imp", "--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&report.out).expect("JSON");
    assert_eq!(report["outside"], json!(outside), "{report}");
}

#[test]
fn call_that_runs_in_the_source_is_ended_until_the_source_says_otherwise() {
    let case = CliFixture::empty();
    let mut source = document(&case);
    import(&case, &source);
    let call = |case: &CliFixture| export(case)["messages"][3]["parts"][0]["state"].clone();
    assert_eq!(call(&case)["status"], "error", "{}", call(&case));
    assert_eq!(call(&case)["metadata"]["interrupted"], true);
    let again = import(&case, &source);
    assert_eq!(again["kinds"]["part"]["unchanged"], 6, "{again}");
    source["messages"][3]["parts"][0]["state"] = json!({ "status": "completed", "output": "made",
        "input": { "command": "make" }, "title": "t", "metadata": {}, "time": { "start": 2010, "end": 2015 } });
    let later = import(&case, &source);
    assert_eq!(later["kinds"]["part"]["imported"], 1, "{later}");
    assert_eq!(call(&case)["output"], "made");
}

#[test]
fn imported_revert_is_kept_and_can_be_unreverted() {
    let case = CliFixture::empty();
    let source = reverted_document(&case);
    import(&case, &source);
    assert_eq!(export(&case)["info"]["revert"], source["info"]["revert"], "exported as it came");
    let again = import(&case, &source);
    assert_eq!(again["kinds"]["session"]["unchanged"], 1, "{again}");

    let server = serve(&case);
    let shown = request(&server, "GET", "/session/ses_imp", &Value::Null).1;
    assert_eq!(shown["revert"], source["info"]["revert"], "{shown}");
    let (status, back) = request(&server, "POST", "/session/ses_imp/unrevert", &json!({}));
    assert_eq!((status, back.get("revert")), (200, None), "{back}");
    let listed = request(&server, "GET", "/session", &Value::Null).1;
    assert_eq!(listed[0].get("revert"), None, "{listed}");
    let body = json!({ "messageID": "msg_c" });
    let (status, again) = request(&server, "POST", "/session/ses_imp/revert", &body);
    assert_eq!((status, &again["revert"]["messageID"]), (200, &json!("msg_c")), "{again}");
    let prompt = json!({ "noReply": true, "parts": [{ "type": "text", "text": "go on" }] });
    request(&server, "POST", "/session/ses_imp/message", &prompt);
    let messages = request(&server, "GET", "/session/ses_imp/message", &Value::Null).1;
    let ids: Vec<&Value> =
        messages.as_array().expect("a list").iter().map(|it| &it["info"]["id"]).collect();
    assert!(ids.len() == 3 && !ids.contains(&&json!("msg_c")), "{ids:?}");
}

#[test]
fn imported_revert_can_be_redone_on_the_command_line() {
    let case = CliFixture::empty();
    import(&case, &reverted_document(&case));
    assert_eq!(case.run_json(&["log", "ses_imp"])["head"]["message"], "msg_c");
    let ran = case.run(&["redo", "--session", "ses_imp"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(case.run_json(&["log", "ses_imp"])["head"], Value::Null);
}

#[test]
fn stored_diffs_of_imported_messages_are_served() {
    let case = CliFixture::empty();
    import(&case, &document(&case));
    let server = serve(&case);
    for (message, file) in [("msg_a", "a.txt"), ("msg_c", "c.txt")] {
        let path = format!("/session/ses_imp/diff?messageID={message}");
        let (status, diff) = request(&server, "GET", &path, &Value::Null);
        assert_eq!((status, &diff[0]["file"]), (200, &json!(file)), "{diff}");
    }
}

/// One "once" is enough, although the client does not name its request.
#[test]
fn revert_that_asks_passes_after_one_answer() {
    let case = CliFixture::empty();
    let rules = r#"{"permission":{"revert":"ask"}}"#;
    fs_err::write(case.path("p/turnstone.json"), rules).expect("written");
    import(&case, &document(&case));
    let server = serve(&case);
    let body = json!({ "messageID": "msg_c" });
    let revert = || request(&server, "POST", "/session/ses_imp/revert", &body);
    assert_eq!(revert().0, 409);
    assert_eq!(revert().0, 409);
    let asked = || request(&server, "GET", "/permission", &Value::Null).1;
    assert_eq!(asked().as_array().map(Vec::len), Some(1), "a repeat asks nothing new: {}", asked());
    let path = format!("/permission/{}/reply", asked()[0]["id"].as_str().expect("an id"));
    assert_eq!(request(&server, "POST", &path, &json!({ "reply": "once" })).0, 200);
    let (status, shown) = revert();
    assert_eq!((status, &shown["revert"]["messageID"]), (200, &json!("msg_c")), "{shown}");
    let (status, _) = request(&server, "POST", "/session/ses_imp/unrevert", &json!({}));
    assert_eq!(status, 409, "another operation needs another answer");
}

#[test]
fn half_a_character_survives_import_http_search_and_export() {
    let case = CliFixture::empty();
    let document = document(&case).to_string().replace("first prompt", HALVES);
    fs_err::write(case.path("x.json"), document).expect("written");
    let report = case.run_json(&["import", "../x.json"]);
    assert_eq!(report["kinds"]["part"]["rejected_count"], 0, "{report}");

    assert!(case.run(&["export", "ses_imp"]).out.contains(HALVES));
    assert_eq!(case.run(&["export", "ses_imp", "-o", "y.json"]).code, 0);
    assert!(fs_err::read_to_string(case.path("p/y.json")).expect("text").contains(HALVES));
    let again = case.run_json(&["import", "y.json"]);
    assert_eq!(again["kinds"]["part"]["unchanged"], 6, "{again}");
    let log = case.run(&["log", "ses_imp"]).out;
    assert!(log.contains("say needle \\ud83d \u{FFFD} and \u{FFFD}"), "{log}");
    assert!(case.run(&["search", "needle"]).out.contains("needle"));

    let server = serve(&case);
    let (_, shown) = request_text(&server, "GET", "/session/ses_imp/message", "");
    assert!(shown.contains(HALVES), "{shown}");
    let body = format!(r#"{{"title":"{HALVES}"}}"#);
    let (status, shown) = request_text(&server, "PATCH", "/session/ses_imp", &body);
    assert!(status == 200 && shown.contains(HALVES), "{shown}");
    let (_, listed) = request_text(&server, "GET", "/session", "");
    assert!(listed.contains(HALVES), "{listed}");
    let body = r#"{"title":"whole \ud83d\ude00"}"#;
    let (_, shown) = request_text(&server, "PATCH", "/session/ses_imp", body);
    assert!(shown.contains("whole \u{1F600}"), "{shown}");
}
