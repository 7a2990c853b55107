//! A turn can be aborted from any process, over HTTP or by the command line (R45).

use serde_json::{Value, json};

use crate::exec::{await_file, read_log, run_program, start_program};
use crate::fixture::CliFixture;
use crate::serve_shell::{TestServer, read_response};

/// Proves R45.
#[test]
fn http_abort_ends_exec_and_changes_can_be_undone() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let script = "echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("ready"));
    let session = read_log(&case)["session"].as_str().expect("a session").to_owned();
    let (_, status) = served.request("GET", "/session/status", &Value::Null);
    assert_eq!(status[&session]["type"], "busy", "{status}");

    let (code, response) =
        served.request("POST", &format!("/session/{session}/abort"), &Value::Null);

    assert_eq!((code, response), (200, json!(true)));
    assert!(!child.wait().expect("ends").success());
    assert_eq!(read_log(&case)["entries"][0]["state"], "aborted");
    let (_, status) = served.request("GET", "/session/status", &Value::Null);
    assert_eq!(status, json!({}), "nothing stays busy");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert!(!case.path("p/new").exists());
}

/// Proves R45.
#[test]
fn session_abort_ends_runner_driven_turn() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let (_, made) = served.request("POST", "/turnstone/runner", &json!({ "name": "scripted" }));
    assert!(made["runner"]["id"].is_string(), "{made}");
    let text = json!({ "parts": [{ "type": "text", "text": "go" }] });
    let (code, _) = served.request("POST", &format!("/session/{session}/prompt_async"), &text);
    assert_eq!(code, 204);
    let base = format!("/turnstone/session/{session}/turn");
    let (_, begun) = served.request("POST", &base, &json!({}));
    let base = format!("{base}/{}", begun["turn"].as_str().expect("a turn"));
    let step = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
    let (code, response) = served.request_as_driver(&begun, &format!("{base}/step"), &step);
    assert_eq!(code, 200, "{response}");

    let ran = run_program(&case, &["session", "abort", &session]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("has ended: aborted"), "{}", ran.err);
    let (code, gone) = served.request_as_driver(&begun, &format!("{base}/beat"), &json!({}));
    assert_eq!((code, &gone["state"]), (410, &json!("aborted")));
    let answer = &served.list_messages(&session)[1];
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
}

/// Proves R45.
#[test]
fn session_abort_ends_server_shell_command() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let line = "echo x > new; touch ../ready; while :; do sleep 0.05; done";
    let (code, answer) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| served.run_shell(&session, line));
        await_file(&case.path("ready"));
        let ran = run_program(&case, &["session", "abort", &session]);
        assert_eq!(ran.code, 0, "{ran:?}");
        asking.join().expect("answered")
    });
    assert_eq!(code, 200, "{answer}");
    assert!(answer["info"]["time"]["completed"].is_i64(), "{answer}");
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert!(!case.path("p/new").exists());
}

/// Proves R45.
#[test]
fn deleting_a_session_ends_its_commands() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    // A command of the server, and one of another process.
    let session = served.create_session();
    let path = format!("/session/{session}/shell");
    let line = "touch ../begun; while :; do sleep 0.05; done";
    let body = json!({ "agent": "build", "command": line });
    let mut waiting = served.request_with_key("k", &path, &body);
    await_file(&case.path("begun"));
    let script = "touch ../ready; while :; do sleep 0.05; done";
    let mut child = start_program(&case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("ready"));
    let other = read_log(&case)["session"].as_str().expect("a session").to_owned();
    assert_ne!(session, other);

    for id in [&session, &other] {
        let (code, response) = served.request("DELETE", &format!("/session/{id}"), &Value::Null);
        assert_eq!((code, response), (200, json!(true)));
    }

    assert_eq!(read_response(&mut waiting).0, 404, "the command has ended without an answer");
    assert!(!child.wait().expect("ends").success());
    let (_, status) = served.request("GET", "/session/status", &Value::Null);
    assert_eq!(status, json!({}));
}
