//! Native routes take exactly the bodies that the document says they take.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::support::{HttpAnswer, OpenApiDocument, ServerFixture, TestClient};

/// The schema of a part of a message. Parts have OpenCode's shapes, which the comparison leaves alone.
const PART: &str = "#/components/schemas/TurnstonePart";

/// What is put in the place of every value of a body.
fn replacements() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(""),
        json!("x"),
        json!(0),
        json!(1.0),
        json!(1.5),
        json!(-1),
        json!(-1.0),
        json!(256),
        json!(4_294_967_296_i64),
        json!(9_007_199_254_740_991_i64),
        json!(9_007_199_254_740_992_i64),
        json!(u64::MAX),
        json!(1e300),
        json!([]),
        json!({}),
        json!(["x", {}]),
    ]
}

/// A value that fits a schema as far as a schema of this document needs it.
fn sample(document: &OpenApiDocument, schema: &Value) -> Value {
    if schema["$ref"] == PART {
        return json!({ "type": "text", "text": "x" });
    }
    let schema = document.resolve(schema);
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    for key in ["anyOf", "oneOf"] {
        let alternatives = schema[key].as_array().filter(|_| schema["properties"].is_null());
        if let Some(last) =
            alternatives.and_then(|all| all.iter().find(|one| one["type"] != "null"))
        {
            return sample(document, last);
        }
    }
    let name = schema["type"].as_array().map_or(&schema["type"], |all| &all[0]);
    match name.as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, it)| (name.clone(), sample(document, it))).collect())
        }
        Some("array") => json!([sample(document, &schema["items"])]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("string") => match schema["pattern"].as_str() {
            Some("^/") => json!("/x"),
            Some(prefix) if prefix.len() == 4 => json!(format!("{}_x", &prefix[1..])),
            Some(pattern) if pattern.contains("A-Za-z0-9+/") => json!("eA=="),
            _ => json!("x"),
        },
        _ => json!({ "a": 1 }),
    }
}

/// Every body that differs from `body` in one place: removed, replaced, or one field more in an object.
fn mutations(body: &Value) -> Vec<Value> {
    let mut found = vec![body.clone()];
    let mut places = Vec::new();
    list_places(body, &mut String::new(), &mut places);
    for place in places {
        for new in replacements() {
            let mut changed = body.clone();
            *changed.pointer_mut(&place).expect("the place") = new;
            found.push(changed);
        }
        let (parent, name) = place.rsplit_once('/').expect("a place");
        let mut changed = body.clone();
        if let Some(Value::Object(map)) = changed.pointer_mut(parent) {
            map.remove(name);
            found.push(changed);
        }
    }
    found
}

fn list_places(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) if map.contains_key("type") => Vec::new(),
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (name, value) in entries {
        let length = at.len();
        at.push_str(&format!("/{name}"));
        places.push(at.clone());
        list_places(value, at, places);
        at.truncate(length);
    }
}

/// Bodies to begin with: with every field; and, where fields exclude each other, with what must be there and each of them.
fn first_bodies(document: &OpenApiDocument, schema: &Value) -> Vec<Value> {
    let whole = sample(document, schema);
    let schema = document.resolve(schema);
    if schema["oneOf"].is_null() && schema["not"].is_null() {
        return vec![whole];
    }
    let whole = whole.as_object().expect("an object").clone();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|one| one == name);
    let exclusive = |name: &str| {
        schema["oneOf"].to_string().contains(&format!("\"{name}\""))
            || schema["not"].to_string().contains(&format!("\"{name}\""))
    };
    let shared: Map<String, Value> = whole
        .iter()
        .filter(|(name, _)| is_required(name) || !exclusive(name))
        .map(|(a, b)| (a.clone(), b.clone()))
        .collect();
    let with = |name: &String| {
        let mut one = shared.clone();
        one.insert(name.clone(), whole[name].clone());
        Value::Object(one)
    };
    whole.keys().filter(|name| exclusive(name)).map(with).collect()
}

fn send(client: &TestClient, method: &str, path: &str, body: &Value) -> HttpAnswer {
    let mut filled = path.to_owned();
    for (name, value) in [
        ("sessionID", "ses_none"),
        ("turnID", "trn_none"),
        ("messageID", "msg_none"),
        ("partID", "prt_none"),
    ] {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    client.send(&method.to_uppercase(), &filled, Some(body.to_string().as_bytes()))
}

#[test]
fn native_routes_accept_exactly_the_documented_bodies() {
    let document = OpenApiDocument::get();
    let house = ServerFixture::new();
    let client = house.client().with_header("x-turnstone-lease", "none");
    let mut wrong = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    let bodies = document.native_bodies().filter(|(_, _, schema)| schema["$ref"] != PART);
    for (method, path, schema) in bodies {
        let mut fields = BTreeSet::new();
        for body in first_bodies(document, schema).iter().flat_map(mutations) {
            let answer = send(&client, method, path, &body);
            let is_valid = document.accepts(schema, &body);
            if is_valid != (answer.status != 400) {
                wrong.push(format!("{method} {path} {body}: valid {is_valid}, {}", answer.text()));
            }
            if is_valid {
                fields.extend(body.as_object().expect("an object").keys().cloned());
            }
            accepted += u32::from(is_valid);
            refused += u32::from(!is_valid);
        }
        let known = document.resolve(schema)["properties"].as_object().expect("properties");
        let known: BTreeSet<String> = known.keys().cloned().collect();
        assert_eq!(fields, known, "{method} {path}: a field is in no valid body");
    }
    assert!(wrong.is_empty(), "{}: {:#?}", wrong.len(), wrong);
    assert!(accepted > 100 && refused > 500, "{accepted} {refused}");
}

/// The names of the fields that a refusal of an unknown one lists.
fn names_in_refusal(answer: &HttpAnswer) -> BTreeSet<String> {
    let message = answer.expect(400)["data"]["message"].as_str().expect("a message").to_owned();
    assert!(message.starts_with("unknown field `unknown`"), "{message}");
    let names = message.split('`').skip(3).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn every_field_of_a_native_body_is_documented() {
    let document = OpenApiDocument::get();
    let house = ServerFixture::new();
    for (method, path, schema) in document.native_bodies() {
        for body in first_bodies(document, schema) {
            let mut places = vec![String::new()];
            list_places(&body, &mut String::new(), &mut places);
            for place in places {
                let mut changed = body.clone();
                let Some(Value::Object(map)) = changed.pointer_mut(&place) else { continue };
                let documented: BTreeSet<String> = map.keys().cloned().collect();
                map.insert("unknown".to_owned(), json!(1));
                if document.accepts(schema, &changed) {
                    continue;
                }
                let listed = names_in_refusal(&send(house.client(), method, path, &changed));
                assert!(documented.is_subset(&listed), "{method} {path}{place}");
                let shown = document.resolve(schema)["properties"].as_object().expect("properties");
                let all: BTreeSet<String> = shown.keys().cloned().collect();
                let documented = if place.is_empty() { all } else { documented };
                assert_eq!(listed, documented, "{method} {path}{place}");
            }
        }
    }
}
