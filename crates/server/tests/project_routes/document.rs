//! The document says what the server does: no route more, no route less.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{ServerFixture, TestClient};

/// Method, path and name of every operation of the recorded document.
const RECORDED: &str = include_str!("../golden/operations.tsv");
const PAGE: &str = include_str!("../../../../docs/http.md");

/// Streams have an answer that does not end.
const STREAMS: [&str; 4] =
    ["/event", "/global/event", "/api/event", "/api/session/{sessionID}/event"];

fn recorded() -> impl Iterator<Item = (&'static str, &'static str)> {
    RECORDED.lines().map(|line| {
        let mut fields = line.split('\t');
        (fields.next().expect("a method"), fields.next().expect("a path"))
    })
}

/// The path with something in the place of every name.
fn filled(path: &str) -> String {
    let mut out = String::new();
    for (index, piece) in path.split(['{', '}']).enumerate() {
        let value = match piece {
            "sessionID" => "ses_none",
            "messageID" => "msg_none",
            "partID" => "prt_none",
            "ptyID" => "pty_none",
            "turnID" => "trn_none",
            "permissionID" => "per_none",
            "requestID" if path.contains("question") => "que_none",
            "requestID" => "per_none",
            _ => "none",
        };
        out.push_str(if index % 2 == 1 { value } else { piece });
    }
    out.replace('*', "none")
}

fn ask(client: &TestClient, method: &str, path: &str) -> (u16, Value) {
    if STREAMS.contains(&path) {
        let path = filled(path);
        return (client.stream(&path).status, Value::Null);
    }
    let body: Option<&[u8]> = (method != "GET").then_some(b"[]");
    let answer = client.send(method, &filled(path), body);
    let is_json = answer.header("content-type") == Some("application/json");
    (answer.status, if is_json { answer.json() } else { Value::Null })
}

fn is_unknown_route(body: &Value) -> bool {
    let message = body["data"]["message"].as_str().unwrap_or_default();
    message.starts_with("Route not found")
}

#[test]
fn every_recorded_operation_is_served_or_listed_as_not_offered() {
    let house = ServerFixture::with_git();
    let page = PAGE.split("## Not offered").nth(1).and_then(|rest| rest.split("\n## ").next());
    let page = page.expect("the list");
    for (method, path) in recorded() {
        let (status, body) = ask(house.client(), method, path);
        assert!(!is_unknown_route(&body), "{method} {path} is not served");
        let listed = page.contains(&format!("`{method} {path}`"));
        let refused = status == 501;
        assert_eq!(refused, listed, "{method} {path}: {status}, listed: {listed}");
        if refused {
            let name = if path.starts_with("/api/") { &body["_tag"] } else { &body["name"] };
            assert_eq!(name, "NotOfferedError", "{method} {path}");
        }
    }
}

#[test]
fn documented_operations_are_served_and_recorded_ones_documented() {
    let house = ServerFixture::with_git();
    let document = house.client().get("/doc").expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    let mut documented = BTreeSet::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let method = method.to_uppercase();
            assert!(operation["responses"].is_object(), "{method} {path} answers nothing");
            let (_, body) = ask(house.client(), &method, path);
            assert!(!is_unknown_route(&body), "{method} {path} is documented and not served");
            documented.insert((method, path.replace("/read/{path}", "/read/*")));
        }
    }
    for (method, path) in recorded() {
        let known = documented.contains(&(method.to_owned(), path.to_owned()));
        assert!(known, "{method} {path} is not documented");
    }
}

#[test]
fn every_route_in_the_source_is_documented() {
    let house = ServerFixture::with_git();
    let document = house.client().get("/doc").expect(200);
    let blank = |path: &str| {
        let pieces = path.split(['{', '}']).enumerate();
        pieces.map(|(index, piece)| if index % 2 == 1 { "{}" } else { piece }).collect::<String>()
    };
    let paths = document["paths"].as_object().expect("paths");
    let documented: BTreeSet<String> = paths.keys().map(|path| blank(path)).collect();
    let mut routes = BTreeSet::new();
    let mut open = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(at) = open.pop() {
        for entry in fs_err::read_dir(&at).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            let source = fs_err::read_to_string(&path).expect("read");
            for piece in source.split(".route(").skip(1) {
                if let Some(rest) = piece.trim_start().strip_prefix('"') {
                    let path = rest.split('"').next().unwrap_or_default();
                    routes.insert(blank(path));
                }
            }
        }
    }
    assert!(routes.len() > 100, "{}", routes.len());
    let missing: Vec<_> = routes.difference(&documented).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
}

#[test]
fn every_operation_documents_its_error_shapes() {
    let house = ServerFixture::with_git();
    let document = house.client().get("/doc").expect(200);
    let find = |value: &Value| -> Value {
        match value["$ref"].as_str() {
            Some(place) => {
                let found = document.pointer(place.trim_start_matches('#'));
                found.unwrap_or_else(|| panic!("{place} leads nowhere")).clone()
            }
            None => value.clone(),
        }
    };
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let answers = operation["responses"].as_object().expect("answers");
            let is_refusal = |status: &&String| status.starts_with('4') || status.starts_with('5');
            let refusals: Vec<&String> = answers.keys().filter(is_refusal).collect();
            assert!(
                answers.contains_key("401"),
                "{method} {path} may need a password: {refusals:?}"
            );
            for status in refusals {
                let schema = &find(&answers[status])["content"]["application/json"]["schema"];
                let shape = find(schema);
                let is_typed =
                    ["anyOf", "oneOf", "properties"].iter().any(|key| !shape[key].is_null());
                assert!(is_typed, "{method} {path} {status}: {shape}");
            }
        }
    }
}

/// A native route says what is missing; the others say that there is no body.
#[test]
fn operations_need_a_body_exactly_where_the_document_says() {
    let house = ServerFixture::with_git();
    let client = house.client().with_header("x-turnstone-lease", "none");
    let document = client.get("/doc").expect(200);
    let mut wrong = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            // A part is looked at under the lease of its turn.
            if !operation["requestBody"].is_object() || path.ends_with("/step/{messageID}/part") {
                continue;
            }
            let required = operation["requestBody"]["required"] == true;
            let answer = client.send(&method.to_uppercase(), &filled(path), None);
            let is_refused = answer.status == 400
                && (path.starts_with("/turnstone/") || answer.text().contains("got undefined"));
            if is_refused != required {
                wrong.push(format!("{method} {path}: {required}, {}", answer.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
