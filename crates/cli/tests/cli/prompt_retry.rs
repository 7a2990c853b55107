//! Prompts whose server is killed before they are answered, and repeated under their key (R43).

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::CliFixture;
use crate::serve_shell::{TestServer, read_response};

const IDEMPOTENCY_KEY: &str = "asked-once";

fn message_path(session: &str) -> String {
    format!("/session/{session}/message")
}

fn prompt_body() -> Value {
    json!({ "parts": [{ "type": "text", "text": "go" }] })
}

/// A runner that is there, as far as the server knows.
fn register_runner(served: &TestServer) {
    let (code, made) = served.request("POST", "/turnstone/runner", &json!({ "name": "scripted" }));
    assert_eq!(code, 200, "{made}");
}

/// The turn that takes the prompt up, once it is in the inbox; what it is driven by.
fn take_turn(served: &TestServer, session: &str) -> (Value, String) {
    let base = format!("/turnstone/session/{session}/turn");
    for _ in 0..1200 {
        let (_, begun) = served.request("POST", &base, &json!({}));
        if let Some(turn) = begun["turn"].as_str() {
            let base = format!("{base}/{turn}");
            return (begun, base);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no prompt came into the inbox");
}

fn begin_step(served: &TestServer, begun: &Value, base: &str) -> String {
    let body = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
    let (code, step) = served.request_as_driver(begun, &format!("{base}/step"), &body);
    assert_eq!(code, 200, "{step}");
    step["messageID"].as_str().expect("an id").to_owned()
}

/// Proves R43.
#[test]
fn retry_after_crash_answers_queued_prompt_once() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    register_runner(&served);
    let open = served.request_with_key(IDEMPOTENCY_KEY, &message_path(&session), &prompt_body());
    let inbox = |served: &TestServer| {
        let (_, standing) =
            served.request("GET", &format!("/turnstone/session/{session}"), &Value::Null);
        standing["inbox"].as_array().map_or(0, Vec::len)
    };
    while inbox(&served) == 0 {
        std::thread::sleep(Duration::from_millis(25));
    }
    served.kill();
    drop(open);

    let served = TestServer::start(&case);
    register_runner(&served);
    let mut again =
        served.request_with_key(IDEMPOTENCY_KEY, &message_path(&session), &prompt_body());
    let (begun, base) = take_turn(&served, &session);
    let made = begin_step(&served, &begun, &base);
    served.request_as_driver(
        &begun,
        &format!("{base}/step/{made}/end"),
        &json!({ "reason": "stop" }),
    );
    served.request_as_driver(&begun, &format!("{base}/end"), &json!({ "outcome": "completed" }));

    let (code, response) = read_response(&mut again);
    assert_eq!((code, &response["info"]["id"]), (200, &json!(made)), "{response}");
    assert_eq!(served.list_messages(&session).len(), 2, "it was stored once");
    let (_, repeated) = read_response(&mut served.request_with_key(
        IDEMPOTENCY_KEY,
        &message_path(&session),
        &prompt_body(),
    ));
    assert_eq!(repeated, response);
}

/// Proves R43.
#[test]
fn retry_after_crash_reports_interrupted_turn() {
    for has_begun in [false, true] {
        let case = CliFixture::empty();
        let served = TestServer::start(&case);
        let session = served.create_session();
        register_runner(&served);
        let open =
            served.request_with_key(IDEMPOTENCY_KEY, &message_path(&session), &prompt_body());
        let (begun, base) = take_turn(&served, &session);
        if has_begun {
            begin_step(&served, &begun, &base);
        }
        served.kill();
        drop(open);

        let served = TestServer::start(&case);
        let (code, response) = read_response(&mut served.request_with_key(
            IDEMPOTENCY_KEY,
            &message_path(&session),
            &prompt_body(),
        ));

        if has_begun {
            assert_eq!((code, &response["info"]["role"]), (200, &json!("assistant")), "{response}");
            assert_eq!(response["info"]["error"]["name"], "MessageAbortedError");
        } else {
            assert_eq!((code, &response["_tag"]), (409, &json!("UnansweredError")), "{response}");
            assert_eq!(response["state"], "interrupted");
        }
        let (_, status) = served.request("GET", "/session/status", &Value::Null);
        assert_eq!(status, json!({}), "nothing is stuck");
    }
}
