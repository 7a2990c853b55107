//! The two parts as one document, put together once.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

const OPENCODE: &str = include_str!("opencode.json");
const NATIVE: &str = include_str!("native.json");

/// The whole document, as it is sent.
pub(crate) fn openapi_document() -> Result<&'static str, serde_json::Error> {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    if let Some(text) = DOCUMENT.get() {
        return Ok(text);
    }
    let mut whole: Map<String, Value> = serde_json::from_str(OPENCODE)?;
    merge_tables(&mut whole, native_routes()?);
    merge_tables(&mut whole, document_head());
    let mut whole = Value::Object(whole);
    add_guard_responses(&mut whole);
    add_actor_filters(&mut whole);
    type_sent_parts(&mut whole);
    tighten_id_patterns(&mut whole);
    Ok(DOCUMENT.get_or_init(|| whole.to_string()))
}

/// The native routes; what every route may answer need not be said with each of them.
fn native_routes() -> Result<Map<String, Value>, serde_json::Error> {
    let mut native: Value = serde_json::from_str(NATIVE)?;
    if let Some(paths) = native["paths"].as_object_mut() {
        let methods = paths.values_mut().filter_map(Value::as_object_mut);
        for operation in methods.flat_map(serde_json::Map::values_mut) {
            for status in ["400", "401", "403", "404", "409", "413", "500", "503", "507"] {
                let said = &mut operation["responses"][status];
                if said.is_null() {
                    *said = json!({ "$ref": format!("#/components/responses/Refusal{status}") });
                }
            }
        }
    }
    serde_json::from_value(native)
}

/// What is answered before a request comes to its route: with every operation.
fn add_guard_responses(whole: &mut Value) {
    let refusals = [
        ("403", "A rule forbids it, or the request comes from a web page of a foreign origin"),
        ("408", "The body took too long to arrive"),
        ("421", "The name in `Host` is not one of this server's"),
        ("429", "Too many requests, or too many wrong passwords"),
    ];
    for (status, description) in refusals {
        let content =
            json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Refusal" } } });
        let name = format!("Refusal{status}");
        let said = json!({ "description": description, "content": content });
        whole["components"]["responses"][&name] = said;
    }
    whole["components"]["responses"]["Refusal503"]["headers"]["Retry-After"] = json!({
        "description": "Seconds after which the database may take the request again",
        "schema": { "type": "integer" },
    });
    let items = whole["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in items.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let takes = operation["requestBody"].is_object();
        for status in ["403", "421", "429"].into_iter().chain(takes.then_some("408")) {
            let said = json!({ "$ref": format!("#/components/responses/Refusal{status}") });
            operation["responses"][status] = said;
        }
    }
}

/// The lists of sessions take one more filter than OpenCode's.
fn add_actor_filters(whole: &mut Value) {
    for path in ["/session", "/experimental/session", "/api/session"] {
        let list = &mut whole["paths"][path]["get"]["parameters"];
        if let Some(parameters) = list.as_array_mut() {
            parameters.push(json!({ "name": "actor", "in": "query", "required": false,
                "description": "Created by this actor", "schema": { "type": "string" } }));
        }
    }
}

/// A part that a driver sends is one of OpenCode's, without the ids that its path names, and with or without its own.
fn type_sent_parts(whole: &mut Value) {
    let schemas = &mut whole["components"]["schemas"];
    let kinds = schemas["Part"]["anyOf"].as_array().cloned().unwrap_or_default();
    let mut sent = Vec::new();
    for kind in &kinds {
        let path = kind["$ref"].as_str().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut kind = schemas[name].clone();
        if let Some(properties) = kind["properties"].as_object_mut() {
            properties.retain(|name, _| name != "sessionID" && name != "messageID");
        }
        if let Some(required) = kind["required"].as_array_mut() {
            required.retain(|name| name != "sessionID" && name != "messageID" && name != "id");
        }
        sent.push(kind);
    }
    let part = &mut schemas["TurnstonePart"];
    *part = json!({ "description": part["description"], "anyOf": sent });
}

/// Gives the pattern of every id in full: `^ses` alone would allow anything after it.
fn tighten_id_patterns(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(pattern)) = map.get_mut("pattern") {
                let prefix = pattern.strip_prefix('^').map(|rest| rest.trim_end_matches('_'));
                let is_id =
                    |text: &&str| text.len() == 3 && text.bytes().all(|b| b.is_ascii_lowercase());
                if let Some(prefix) = prefix.filter(is_id) {
                    *pattern = format!("^{prefix}_[A-Za-z0-9_-]{{1,64}}$");
                }
            }
            map.values_mut().for_each(tighten_id_patterns);
        }
        Value::Array(list) => list.iter_mut().for_each(tighten_id_patterns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn document_head() -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("openapi".to_owned(), json!("3.1.0"));
    let info = json!({ "title": "Turnstone", "version": env!("CARGO_PKG_VERSION"),
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" } });
    map.insert("info".to_owned(), info);
    let doc = json!({ "get": { "operationId": "turnstone.doc", "tags": ["turnstone"], "responses": {
        "200": { "description": "This document",
            "content": { "application/json": { "schema": { "type": "object" } } } },
        "401": { "$ref": "#/components/responses/Refusal401" } } } });
    map.insert("paths".to_owned(), json!({ "/doc": doc }));
    map
}

/// Lays one table over another; what both have is merged.
fn merge_tables(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_tables(below, above),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` in a value.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(text)) = map.get("$ref") {
                    found.push(text.clone());
                }
                map.values().for_each(|inner| references(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn sent_parts_are_typed_as_the_stored_ones() {
        let whole: Value = serde_json::from_str(openapi_document().expect("read")).expect("read");
        let schemas = &whole["components"]["schemas"];
        let sent = schemas["TurnstonePart"]["anyOf"].as_array().expect("kinds");
        assert_eq!(sent.len(), schemas["Part"]["anyOf"].as_array().expect("kinds").len());
        let text = &sent[0];
        assert_eq!(text["required"], json!(["type", "text"]));
        assert!(text["properties"]["id"].is_object() && text["properties"]["sessionID"].is_null());
        let metadata = &schemas["TurnstoneToolEnd"]["properties"]["metadata"];
        assert_eq!(metadata["$ref"], "#/components/schemas/TurnstoneToolMetadata");
    }

    #[test]
    fn every_openapi_reference_resolves() {
        let whole: Value = serde_json::from_str(openapi_document().expect("read")).expect("read");
        let mut found = Vec::new();
        references(&whole, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let target = whole.pointer(reference.trim_start_matches('#'));
            assert!(target.is_some(), "{reference} leads nowhere");
        }
    }
}
