//! Schemas of tools in the forms that providers accept.

use serde_json::{Map, Value, json};

/// The keywords that OpenAI's functions know.
const KNOWN_KEYWORDS: [&str; 14] = [
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "const",
    "description",
    "additionalProperties",
    "$ref",
    "$defs",
    "definitions",
    "anyOf",
    "oneOf",
    "allOf",
];

/// Returns a schema with the keywords that OpenAI's functions know.
pub(super) fn reduce_schema(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut reduced = Map::new();
    for (name, value) in fields {
        if !KNOWN_KEYWORDS.contains(&name.as_str()) {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                let reduce =
                    |(name, schema): (&String, &Value)| (name.clone(), reduce_schema(schema));
                Value::Object(named.iter().map(reduce).collect())
            }
            ("anyOf" | "oneOf" | "allOf" | "items", Value::Array(list)) => {
                list.iter().map(reduce_schema).collect()
            }
            ("items" | "additionalProperties", value) => reduce_schema(value),
            (_, value) => value.clone(),
        };
        reduced.insert(name.clone(), value);
    }
    Value::Object(reduced)
}

/// The keywords that Gemini copies as they are.
const GEMINI_KEYWORDS: [&str; 8] =
    ["description", "format", "minItems", "maxItems", "minimum", "maximum", "title", "required"];

/// Returns a schema in Gemini's dialect of OpenAPI: one type, enumerations of strings, no references.
pub(super) fn to_gemini_schema(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return json!({"type": "string"}) };
    let mut found = Map::new();
    for (name, value) in fields {
        if GEMINI_KEYWORDS.contains(&name.as_str()) {
            found.insert(name.clone(), value.clone());
        }
    }
    add_gemini_type(fields, &mut found);
    if let Some(choices) = fields.get("enum").and_then(Value::as_array) {
        add_string_choices(choices.iter(), &mut found);
    } else if let Some(value) = fields.get("const") {
        add_string_choices(std::iter::once(value), &mut found);
    }
    if let Some(Value::Object(properties)) = fields.get("properties") {
        let convert = |(name, schema): (&String, &Value)| (name.clone(), to_gemini_schema(schema));
        found.insert("properties".to_owned(), properties.iter().map(convert).collect());
        // A name in `required` without a property is refused.
        if let Some(Value::Array(required)) = found.get_mut("required") {
            required.retain(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
        }
    } else {
        found.remove("required");
    }
    if found.get("type") == Some(&json!("array")) {
        let items = fields.get("items").map_or_else(|| json!({"type": "string"}), to_gemini_schema);
        found.insert("items".to_owned(), items);
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(list)) = fields.get(name) {
            let is_null = |schema: &&Value| schema["type"] == "null";
            if list.iter().any(|schema| is_null(&schema)) {
                found.insert("nullable".to_owned(), json!(true));
            }
            let others: Vec<Value> =
                list.iter().filter(|schema| !is_null(schema)).map(to_gemini_schema).collect();
            match &others[..] {
                [Value::Object(only)] => found.extend(only.clone()),
                _ => {
                    found.insert("anyOf".to_owned(), Value::Array(others));
                }
            }
        }
    }
    Value::Object(found)
}

/// Adds the first type that is not `null`; the others would be refused.
fn add_gemini_type(fields: &Map<String, Value>, found: &mut Map<String, Value>) {
    match fields.get("type") {
        Some(Value::Array(types)) => {
            if types.contains(&json!("null")) {
                found.insert("nullable".to_owned(), json!(true));
            }
            let first = types.iter().find(|kind| *kind != "null");
            found.insert("type".to_owned(), first.cloned().unwrap_or_else(|| json!("string")));
        }
        Some(kind) => {
            found.insert("type".to_owned(), kind.clone());
        }
        None if fields.contains_key("properties") => {
            found.insert("type".to_owned(), json!("object"));
        }
        None => {}
    }
}

fn add_string_choices<'v>(
    choices: impl Iterator<Item = &'v Value>,
    found: &mut Map<String, Value>,
) {
    let text = |value: &Value| match value.as_str() {
        Some(text) => json!(text),
        None => json!(value.to_string()),
    };
    found.insert("enum".to_owned(), choices.map(text).collect());
    found.insert("type".to_owned(), json!("string"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_gets_the_keywords_it_knows() {
        let schema = json!({
            "$schema": "x", "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {
                "a": {"type": "integer", "minimum": 1, "maximum": 9, "description": "d"},
                "format": {"type": "array", "items": {"type": "string", "minLength": 1}},
                "c": {"anyOf": [{"type": "string", "pattern": "x"}, {"$ref": "#/$defs/d"}]},
            },
            "$defs": {"d": {"type": "number", "default": 1}},
        });
        let expected = json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {
                "a": {"type": "integer", "description": "d"},
                "format": {"type": "array", "items": {"type": "string"}},
                "c": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/d"}]},
            },
            "$defs": {"d": {"type": "number"}},
        });
        assert_eq!(reduce_schema(&schema), expected);
    }

    #[test]
    fn gemini_gets_single_types_and_string_choices() {
        let schema = json!({
            "$schema": "x", "type": "object", "required": ["a", "gone"], "additionalProperties": false,
            "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1},
                "b": {"type": "array"},
                "c": {"enum": [1, "two"]},
                "d": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "e": {"const": "x"},
                "f": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
        });
        let expected = json!({
            "required": ["a"], "type": "object",
            "properties": {
                "a": {"minimum": 1, "nullable": true, "type": "integer"},
                "b": {"type": "array", "items": {"type": "string"}},
                "c": {"enum": ["1", "two"], "type": "string"},
                "d": {"nullable": true, "type": "string"},
                "e": {"enum": ["x"], "type": "string"},
                "f": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
        });
        assert_eq!(to_gemini_schema(&schema), expected);
    }
}
