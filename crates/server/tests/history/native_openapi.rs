//! The document of the native routes says what is served, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::ServerFixture;

const DOC: &str = include_str!("../../src/doc/native.json");

/// A path with its names taken out: the document and the program may name them differently.
fn shape(path: &str) -> String {
    let named = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(named).collect::<Vec<_>>().join("/")
}

fn documented() -> BTreeSet<(String, String)> {
    let doc: Value = serde_json::from_str(DOC).expect("JSON");
    let paths = doc["paths"].as_object().expect("paths").iter();
    let methods = |(path, item): (&String, &Value)| -> Vec<(String, String)> {
        let words = item.as_object().expect("an item").keys();
        words.map(|method| (method.to_owned(), shape(path))).collect()
    };
    paths.flat_map(methods).collect()
}

/// The routes the source declares.
fn declared() -> BTreeSet<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/route/native");
    let mut found = BTreeSet::new();
    for entry in fs_err::read_dir(folder).expect("a folder") {
        let text = fs_err::read_to_string(entry.expect("a file").path()).expect("text");
        for route in text.split(".route(").skip(1) {
            let mut quoted = route.splitn(3, '"');
            let (Some(_), Some(path), Some(rest)) = (quoted.next(), quoted.next(), quoted.next())
            else {
                panic!("{route}");
            };
            let mut depth = 1;
            let end = rest.find(|letter| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                depth == 0
            });
            let handlers = &rest[..end.expect("closed")];
            for method in ["get", "post", "put", "patch", "delete"] {
                if handlers.contains(&format!("{method}(")) {
                    found.insert((method.to_owned(), shape(path)));
                }
            }
        }
    }
    found
}

#[test]
fn native_routes_and_openapi_agree() {
    assert_eq!(documented(), declared());
    let house = ServerFixture::new();
    for (method, path) in documented() {
        let path = path.replace("{}", "x");
        let answer = house.client().send(&method.to_uppercase(), &path, Some(b"{}"));
        let text = answer.text();
        assert!(!text.contains("Route not found"), "{method} {path}: {text}");
        assert_ne!(answer.status, 500, "{method} {path}: {text}");
    }
}

#[test]
fn every_openapi_schema_exists_and_is_used() {
    let doc: Value = serde_json::from_str(DOC).expect("JSON");
    let schemas: BTreeSet<&str> = doc["components"]["schemas"]
        .as_object()
        .expect("schemas")
        .keys()
        .map(String::as_str)
        .collect();
    let text = doc.to_string();
    let named = text.split("#/components/schemas/").skip(1);
    let named: BTreeSet<&str> = named.map(|rest| rest.split('"').next().expect("a name")).collect();
    // What OpenCode's own document defines is named, not defined again.
    let theirs = |name: &&&str| matches!(**name, "Part" | "Message" | "SessionStatus");
    let missing: Vec<&&str> = named.difference(&schemas).filter(|name| !theirs(name)).collect();
    assert_eq!(missing, Vec::<&&str>::new());
    let unused: Vec<&&str> = schemas.difference(&named).collect();
    assert_eq!(unused, Vec::<&&str>::new());
}

#[test]
fn every_operation_has_id_summary_and_typed_errors() {
    let doc: Value = serde_json::from_str(DOC).expect("JSON");
    let mut names = BTreeSet::new();
    for (path, item) in doc["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("an item") {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
            assert!(names.insert(id.to_owned()), "{id} twice");
            assert!(operation["summary"].is_string(), "{id}");
            let answers = operation["responses"].as_object().expect("responses");
            assert!(answers.contains_key("200") && answers.contains_key("400"), "{id}");
            for (status, answer) in answers {
                let schema = &answer["content"]["application/json"]["schema"];
                assert!(schema.is_object(), "{id} {status} has no schema");
            }
        }
    }
}
