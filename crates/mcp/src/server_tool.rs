//! The tools that a server lists, as far as they can be used.

use rmcp::model::Tool;
use serde_json::{Map, Value};

use crate::safe_text::{clean_line, clean_text};

/// The most tools of one server.
pub(crate) const MAX_TOOLS: usize = 200;
/// The longest name of a tool.
const MAX_NAME_BYTES: usize = 128;
/// The longest description of a tool.
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;
/// The largest schema of a tool.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// The longest single text in a schema.
const MAX_SCHEMA_TEXT_BYTES: usize = 4 << 10;
/// How deep a schema may be nested.
const MAX_SCHEMA_DEPTH: usize = 32;

/// A tool of a server, clean and within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// Its name at the server.
    pub name: String,
    /// What the server says that it does.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub input_schema: Map<String, Value>,
    /// The server says that it changes nothing.
    pub is_read_only: bool,
}

/// Returns the tools that can be used, and how many cannot: beyond a limit, without a usable name or schema, or
/// listed twice.
pub(crate) fn read_tools(listed: Vec<Tool>) -> (Vec<ServerTool>, usize) {
    let count = listed.len();
    let mut tools: Vec<ServerTool> = Vec::new();
    for tool in listed.into_iter().filter_map(read_tool) {
        if tools.len() < MAX_TOOLS && !tools.iter().any(|it| it.name == tool.name) {
            tools.push(tool);
        }
    }
    let omitted = count - tools.len();
    (tools, omitted)
}

fn read_tool(tool: Tool) -> Option<ServerTool> {
    let name = tool.name.into_owned();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || clean_line(&name, MAX_NAME_BYTES) != name {
        return None;
    }
    let input_schema = read_schema(&tool.input_schema)?;
    let description = clean_text(&tool.description.unwrap_or_default(), MAX_DESCRIPTION_BYTES);
    let is_read_only = tool.annotations.is_some_and(|it| it.read_only_hint == Some(true));
    Some(ServerTool { name, description, input_schema, is_read_only })
}

/// Returns a schema of an object without control characters; nothing if it is too large or of something else.
fn read_schema(schema: &Map<String, Value>) -> Option<Map<String, Value>> {
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    let mut size = 0;
    if !is_object || !measure(schema, 1, &mut size) {
        return None;
    }
    let Value::Object(mut cleaned) = clean_value(Value::Object(schema.clone())) else {
        return None;
    };
    cleaned.insert("type".to_owned(), Value::from("object"));
    cleaned.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Some(cleaned)
}

/// Adds up the size of a table; false once it is too large or too deep.
fn measure(table: &Map<String, Value>, depth: usize, size: &mut usize) -> bool {
    table.iter().all(|(key, value)| {
        *size += key.len() + 4;
        measure_value(value, depth, size)
    })
}

fn measure_value(value: &Value, depth: usize, size: &mut usize) -> bool {
    *size += 8;
    if depth > MAX_SCHEMA_DEPTH || *size > MAX_SCHEMA_BYTES {
        return false;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => {
            *size += text.len();
            *size <= MAX_SCHEMA_BYTES
        }
        Value::Array(values) => values.iter().all(|it| measure_value(it, depth + 1, size)),
        Value::Object(table) => measure(table, depth + 1, size),
    }
}

fn clean_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean_text(&text, MAX_SCHEMA_TEXT_BYTES)),
        Value::Array(values) => values.into_iter().map(clean_value).collect(),
        Value::Object(table) => {
            let entry = |(key, value): (String, Value)| {
                (clean_line(&key, MAX_SCHEMA_TEXT_BYTES), clean_value(value))
            };
            Value::Object(table.into_iter().map(entry).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, schema: &Value) -> Tool {
        let tool = json!({"name": name, "description": description, "inputSchema": schema});
        serde_json::from_value(tool).expect("a tool")
    }

    #[test]
    fn definitions_are_clean_and_read_only_is_only_what_the_server_says() {
        let schema =
            json!({"type": "object", "properties": {"a\u{7}": {"description": "x\x1b[2Jy"}}});
        let mut listed = tool("say.hi!", "Says\x1b]0;evil\x07 hi\nto all", &schema);
        listed.annotations = Some(rmcp::model::ToolAnnotations::new().read_only(true));
        let (tools, omitted) = read_tools(vec![listed, tool("b", "", &json!({}))]);
        assert_eq!(omitted, 0);
        assert_eq!(tools[0].description, "Says]0;evil hi\nto all");
        assert_eq!(tools[0].input_schema["properties"]["a"]["description"], "x[2Jy");
        assert!(tools[0].is_read_only && !tools[1].is_read_only);
        assert_eq!(json!(tools[1].input_schema), json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn huge_deep_and_nameless_tools_are_omitted() {
        let mut deep = json!({});
        for _ in 0..40 {
            deep = json!({"properties": {"a": deep}});
        }
        let wide = json!({"enum": vec![0; 20_000]});
        let schema = json!({});
        let listed = vec![
            tool("", "", &schema),
            tool("a\u{1b}b", "", &schema),
            tool(&"n".repeat(200), "", &schema),
            tool("deep", "", &deep),
            tool("wide", "", &wide),
            tool("long", "", &json!({"description": "x".repeat(100_000)})),
            tool("array", "", &json!({"type": "array"})),
            tool("good", &"d".repeat(100_000), &schema),
            tool("good", "again", &schema),
        ];
        let (tools, omitted) = read_tools(listed);
        assert_eq!((tools.len(), omitted), (1, 8));
        assert!(tools[0].description.len() < 10_000);
        let many = (0..500).map(|n| tool(&format!("t{n}"), "", &schema)).collect();
        assert_eq!(
            read_tools(many),
            (read_tools((0..200).map(|n| tool(&format!("t{n}"), "", &schema)).collect()).0, 300)
        );
    }
}
