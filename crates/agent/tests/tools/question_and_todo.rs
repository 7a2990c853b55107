//! Questions and the to-do list.

use serde_json::json;
use turnstone_agent::tool::{
    QuestionTool, TodoWriteTool, Tool, ToolError, ToolSettings, builtin_tools,
};

use crate::fake_host::{ToolFixture, ctx, failure};

#[test]
fn todo_list_is_stored_and_counted() {
    let case = ToolFixture::new();
    let todo = |content: &str, status: &str| json!({"content": content, "status": status, "priority": "high"});
    let input =
        json!({"todos": [todo("a", "completed"), todo("b", "in_progress"), todo("c", "pending")]});
    let host = case.host("todowrite");
    let reply = TodoWriteTool.run(&host, &input).expect("stored");
    assert_eq!(reply.title, "2 todos");
    assert_eq!(reply.metadata["todos"], input["todos"]);
    assert_eq!(host.asked(), ["todowrite: *"]);
    let stored = case.engine.store().read(&ctx(), |r| r.sessions().todos(&case.session));
    assert_eq!(json!(stored.expect("read")), input["todos"]);
    let words = failure(case.run(&TodoWriteTool, &json!({"todos": [{"content": "a"}]})));
    assert!(words.contains("$.todos[0].status is missing"), "{words}");
}

#[test]
fn answers_follow_their_questions_and_missing_ones_are_named() {
    let case = ToolFixture::new();
    let question = |text: &str| {
        json!({"question": text, "header": "h",
        "options": [{"label": "Red", "description": "d"}]})
    };
    let input = json!({"questions": [question("Which colour?"), question("Which size?")]});
    let host = case.host("question").answering(&[&["Red", "Blue"], &[]]);
    let reply = QuestionTool.run(&host, &input).expect("answered");
    assert_eq!(reply.metadata["answers"], json!([["Red", "Blue"], []]));
    assert!(
        reply.output.contains("\"Which colour?\"=\"Red, Blue\", \"Which size?\"=\"Unanswered\""),
        "{}",
        reply.output
    );
    let dismissed = case.run(&QuestionTool, &input);
    assert!(matches!(dismissed, Err(ToolError::Rejected(_))), "{dismissed:?}");
    assert!(failure(case.run(&QuestionTool, &json!({"questions": []}))).contains("At least one"));
}

#[test]
fn schemas_are_strict_json_schemas_of_objects() {
    for tool in builtin_tools(&ToolSettings::default()) {
        let schema = tool.schema();
        let parameters = &schema.parameters;
        assert_eq!(parameters["type"], json!("object"), "{}", schema.name);
        assert!(parameters["$schema"].as_str().expect("text").contains("2020-12"));
        let properties = parameters["properties"].as_object().expect("an object");
        for name in parameters["required"].as_array().expect("a list") {
            assert!(properties.contains_key(name.as_str().expect("text")), "{}", schema.name);
        }
        for property in properties.values() {
            assert!(property["type"].is_string(), "no property may be null: {property}");
            if property["type"] == json!("integer") {
                assert!(property["minimum"].is_u64() && property["maximum"].is_u64());
            }
        }
        assert!(!schema.description.is_empty());
    }
}
