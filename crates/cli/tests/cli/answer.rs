//! Prompts whose server is killed before they are answered, and repeated under their key (R43).

use std::time::Duration;

use serde_json::{Value, json};

use crate::case::Case;
use crate::shell::{Served, answer};

const KEY: &str = "asked-once";

fn path(session: &str) -> String {
    format!("/session/{session}/message")
}

fn prompt() -> Value {
    json!({ "parts": [{ "type": "text", "text": "go" }] })
}

/// A runner that is there, as far as the server knows.
fn attach(served: &Served) {
    let (code, made) = served.ask("POST", "/turnstone/runner", &json!({ "name": "scripted" }));
    assert_eq!(code, 200, "{made}");
}

/// The turn that takes the prompt up, once it is in the inbox; what it is driven by.
fn take(served: &Served, session: &str) -> (Value, String) {
    let base = format!("/turnstone/session/{session}/turn");
    for _ in 0..1200 {
        let (_, begun) = served.ask("POST", &base, &json!({}));
        if let Some(turn) = begun["turn"].as_str() {
            let base = format!("{base}/{turn}");
            return (begun, base);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("no prompt came into the inbox");
}

fn step(served: &Served, begun: &Value, base: &str) -> String {
    let body = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
    let (code, step) = served.drive(begun, &format!("{base}/step"), &body);
    assert_eq!(code, 200, "{step}");
    step["messageID"].as_str().expect("an id").to_owned()
}

#[test]
fn a_prompt_that_waited_when_the_server_was_killed_is_answered_once_by_its_repeat_r43() {
    let case = Case::empty();
    let served = Served::start(&case);
    let session = served.session();
    attach(&served);
    let open = served.once(KEY, &path(&session), &prompt());
    let inbox = |served: &Served| {
        let (_, standing) =
            served.ask("GET", &format!("/turnstone/session/{session}"), &Value::Null);
        standing["inbox"].as_array().map_or(0, Vec::len)
    };
    while inbox(&served) == 0 {
        std::thread::sleep(Duration::from_millis(25));
    }
    served.kill();
    drop(open);

    let served = Served::start(&case);
    attach(&served);
    let mut again = served.once(KEY, &path(&session), &prompt());
    let (begun, base) = take(&served, &session);
    let made = step(&served, &begun, &base);
    served.drive(&begun, &format!("{base}/step/{made}/end"), &json!({ "reason": "stop" }));
    served.drive(&begun, &format!("{base}/end"), &json!({ "outcome": "completed" }));

    let (code, said) = answer(&mut again);
    assert_eq!((code, &said["info"]["id"]), (200, &json!(made)), "{said}");
    assert_eq!(served.messages(&session).len(), 2, "it was said once");
    let (_, repeated) = answer(&mut served.once(KEY, &path(&session), &prompt()));
    assert_eq!(repeated, said);
}

#[test]
fn a_prompt_whose_turn_died_with_the_server_is_told_so_by_its_repeat_r43() {
    for has_begun in [false, true] {
        let case = Case::empty();
        let served = Served::start(&case);
        let session = served.session();
        attach(&served);
        let open = served.once(KEY, &path(&session), &prompt());
        let (begun, base) = take(&served, &session);
        if has_begun {
            step(&served, &begun, &base);
        }
        served.kill();
        drop(open);

        let served = Served::start(&case);
        let (code, said) = answer(&mut served.once(KEY, &path(&session), &prompt()));

        if has_begun {
            assert_eq!((code, &said["info"]["role"]), (200, &json!("assistant")), "{said}");
            assert_eq!(said["info"]["error"]["name"], "MessageAbortedError");
        } else {
            assert_eq!((code, &said["_tag"]), (409, &json!("UnansweredError")), "{said}");
            assert_eq!(said["state"], "interrupted");
        }
        let (_, status) = served.ask("GET", "/session/status", &Value::Null);
        assert_eq!(status, json!({}), "nothing is stuck");
    }
}
