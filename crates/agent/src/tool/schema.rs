//! The JSON schemas of the built-in tools.

use serde_json::{Value, json};

use crate::model::ToolSchema;

/// The largest integer that every JSON reader keeps exact.
const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Returns the schema of a tool whose arguments are an object.
pub(crate) fn tool_schema(
    name: &str,
    description: impl Into<String>,
    properties: &Value,
    required: &[&str],
) -> ToolSchema {
    let mut parameters = object(properties, required);
    if let Some(fields) = parameters.as_object_mut() {
        let dialect = json!("https://json-schema.org/draft/2020-12/schema");
        fields.shift_insert(0, "$schema".to_owned(), dialect);
    }
    ToolSchema { name: name.to_owned(), description: description.into(), parameters }
}

/// Returns the schema of an object.
pub(crate) fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Returns the schema of a text.
pub(crate) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// Returns the schema of a flag.
pub(crate) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// Returns the schema of an integer.
pub(crate) fn integer(least: u64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": MAX_INTEGER,
        "description": description })
}

/// Returns the schema of a list.
pub(crate) fn array(items: &Value, description: &str) -> Value {
    json!({ "type": "array", "items": items, "description": description })
}
