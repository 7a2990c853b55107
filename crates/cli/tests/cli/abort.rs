//! A turn is stopped by whoever asks for it, whichever process runs it: over HTTP, or by the command line (R45).

use serde_json::{Value, json};

use crate::case::Case;
use crate::exec::{await_file, log, run, start};
use crate::shell::{Served, answer};

#[test]
fn a_command_of_exec_is_aborted_over_http_and_can_be_undone_r45() {
    let case = Case::empty();
    let served = Served::start(&case);
    let script = "echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.place("ready"));
    let session = log(&case)["session"].as_str().expect("a session").to_owned();
    let (_, status) = served.ask("GET", "/session/status", &Value::Null);
    assert_eq!(status[&session]["type"], "busy", "{status}");

    let (code, said) = served.ask("POST", &format!("/session/{session}/abort"), &Value::Null);

    assert_eq!((code, said), (200, json!(true)));
    assert!(!child.wait().expect("ends").success());
    assert_eq!(log(&case)["entries"][0]["state"], "aborted");
    let (_, status) = served.ask("GET", "/session/status", &Value::Null);
    assert_eq!(status, json!({}), "nothing stays busy");
    assert_eq!(run(&case, &["undo"]).code, 0);
    assert!(!case.place("p/new").exists());
}

#[test]
fn a_turn_that_a_runner_drives_is_aborted_by_the_command_line_r45() {
    let case = Case::empty();
    let served = Served::start(&case);
    let session = served.session();
    let (_, made) = served.ask("POST", "/turnstone/runner", &json!({ "name": "scripted" }));
    assert!(made["runner"]["id"].is_string(), "{made}");
    let text = json!({ "parts": [{ "type": "text", "text": "go" }] });
    let (code, _) = served.ask("POST", &format!("/session/{session}/prompt_async"), &text);
    assert_eq!(code, 204);
    let base = format!("/turnstone/session/{session}/turn");
    let (_, begun) = served.ask("POST", &base, &json!({}));
    let base = format!("{base}/{}", begun["turn"].as_str().expect("a turn"));
    let step = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
    let (code, said) = served.drive(&begun, &format!("{base}/step"), &step);
    assert_eq!(code, 200, "{said}");

    let ran = run(&case, &["session", "abort", &session]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("is aborted"), "{}", ran.err);
    let (code, gone) = served.drive(&begun, &format!("{base}/beat"), &json!({}));
    assert_eq!((code, &gone["state"]), (410, &json!("aborted")));
    let answer = &served.messages(&session)[1];
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
}

#[test]
fn a_command_that_the_server_runs_is_aborted_by_the_command_line_r45() {
    let case = Case::empty();
    let served = Served::start(&case);
    let session = served.session();
    let line = "echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let (code, answer) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| served.shell(&session, line));
        await_file(&case.place("ready"));
        let ran = run(&case, &["session", "abort", &session]);
        assert_eq!(ran.code, 0, "{ran:?}");
        asking.join().expect("answered")
    });
    assert_eq!(code, 200, "{answer}");
    assert!(answer["info"]["time"]["completed"].is_i64(), "{answer}");
    assert_eq!(run(&case, &["undo"]).code, 0);
    assert!(!case.place("p/new").exists());
}

#[test]
fn a_command_does_not_outlive_its_session_r45() {
    let case = Case::empty();
    let served = Served::start(&case);
    // A command of the server, and one of another process.
    let session = served.session();
    let path = format!("/session/{session}/shell");
    let line = "touch ../begun; while :; do sleep 0.05; done";
    let body = json!({ "agent": "build", "command": line });
    let mut waiting = served.once("k", &path, &body);
    await_file(&case.place("begun"));
    let script = "touch ../ready; while :; do sleep 0.05; done";
    let mut child = start(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.place("ready"));
    let other = log(&case)["session"].as_str().expect("a session").to_owned();
    assert_ne!(session, other);

    for id in [&session, &other] {
        let (code, said) = served.ask("DELETE", &format!("/session/{id}"), &Value::Null);
        assert_eq!((code, said), (200, json!(true)));
    }

    assert_eq!(answer(&mut waiting).0, 404, "the command has ended, and nobody has its answer");
    assert!(!child.wait().expect("ends").success());
    let (_, status) = served.ask("GET", "/session/status", &Value::Null);
    assert_eq!(status, json!({}));
}
