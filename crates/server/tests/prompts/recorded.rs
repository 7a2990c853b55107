//! What the real server answered, asked again.

use serde_json::Value;

use crate::support::ServerFixture;
use crate::{session, support};

const RECORDED: &str = include_str!("../golden/prompts.jsonl");

/// The pair with this label.
pub(crate) fn pair(label: &str) -> Value {
    let pairs = RECORDED.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    pairs.into_iter().find(|pair| pair["label"] == label).unwrap_or_else(|| panic!("no {label}"))
}

fn ask(house: &ServerFixture, pair: &Value, ours: &str) -> support::HttpAnswer {
    let path = pair["path"].as_str().expect("a path");
    let path: Vec<&str> = path
        .split('/')
        .map(|part| {
            let is_known = part.starts_with("ses_") && part != "ses_unknown";
            if is_known || part == "SES" { ours } else { part }
        })
        .collect();
    let body = Some(&pair["body"]).filter(|body| !body.is_null()).map(Value::to_string);
    let method = pair["method"].as_str().expect("a method");
    house.client().send(method, &path.join("/"), body.as_deref().map(str::as_bytes))
}

#[test]
fn errors_match_recorded_messages() {
    let house = ServerFixture::new();
    let ours = session(&house);
    for label in [
        "permission reply unknown",
        "permission reply badid",
        "permission legacy unknown",
        "question reply bad",
        "question reply unknown",
        "question reject unknown",
        "permission reply bad",
        "summarize missing",
        "err unknown session prompt",
        "err unknown session prompt_async",
        "err unknown session abort",
        "err unknown session summarize",
        "err unknown session shell",
        "err unknown session command",
        "err empty body prompt",
        "err wrong types prompt",
        "err wrong part type",
        "err missing parts",
        "err bad messageID",
    ] {
        let pair = pair(label);
        let answer = ask(&house, &pair, &ours);
        assert_eq!(u64::from(answer.status), pair["status"], "{label}: {}", answer.text());
        assert_eq!(answer.json(), pair["answer"], "{label}");
    }
    assert!(crate::messages(&house, &ours).is_empty(), "a refusal leaves nothing behind");
}

/// The parts without what differs from run to run.
fn shapes(message: &Value, root: &str) -> Vec<Value> {
    let parts = message["parts"].as_array().expect("parts").clone();
    let shape = |mut part: Value| {
        for key in ["id", "sessionID", "messageID"] {
            part.as_object_mut().expect("a part").remove(key);
        }
        let text = part.to_string().replace(root, "/home/user/project");
        serde_json::from_str(&text).expect("JSON")
    };
    parts.into_iter().map(shape).collect()
}

#[test]
fn prompt_expansion_matches_recording() {
    let house = ServerFixture::with_git();
    house.write_file("src/main.rs", "fn main() {}\n");
    let root = house.project().to_string_lossy().into_owned();
    for label in ["dir file part", "missing file part", "png part", "agent part"] {
        let mut pair = pair(label);
        let text = pair["body"].to_string().replace("/home/user/project", &root);
        pair["body"] = serde_json::from_str(&text).expect("JSON");
        let ours = session(&house);
        ask(&house, &pair, &ours).expect(200);
        let stored = crate::messages(&house, &ours);
        assert_eq!(stored[0]["info"]["role"], "user");
        let (got, want) = (shapes(&stored[0], &root), shapes(&pair["answer"], "\u{0}"));
        assert_eq!(got, want, "{label}");
    }
}

#[test]
fn no_reply_prompt_answers_with_itself() {
    let house = ServerFixture::new();
    let ours = session(&house);
    for label in ["prompt noReply", "err empty parts"] {
        let pair = pair(label);
        let answer = ask(&house, &pair, &ours).expect(200);
        let want = &pair["answer"];
        assert_eq!(shapes(&answer, "\u{0}"), shapes(want, "\u{0}"), "{label}");
        let keys = |value: &Value| {
            let mut keys: Vec<String> =
                value["info"].as_object().expect("an object").keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&answer), keys(want), "{label}");
    }
}
