//! Agents as clients see them.

use serde_json::{Map, Value, json};
use turnstone_config::AgentProfile;
use turnstone_core::permission::PermissionRule;

/// An agent as `/agent` lists it.
pub(crate) fn agent_json(agent: &AgentProfile) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), Value::from(agent.name.as_str()));
    map.insert("mode".to_owned(), Value::from(agent.mode.as_str()));
    map.insert("native".to_owned(), Value::from(agent.is_builtin));
    if agent.is_hidden {
        map.insert("hidden".to_owned(), Value::from(true));
    }
    map.insert("permission".to_owned(), json!(agent.rules));
    let model = agent.model.as_ref();
    let model = model.map(|it| json!({ "providerID": it.provider, "modelID": it.model }));
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    for (key, value) in [
        ("description", text(&agent.description)),
        ("prompt", text(&agent.prompt)),
        ("model", model),
        ("variant", text(&agent.variant)),
        ("temperature", agent.temperature.map(Value::from)),
        ("topP", agent.top_p.map(Value::from)),
        ("steps", agent.steps.map(Value::from)),
        ("color", text(&agent.color)),
    ] {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    }
    map.insert("options".to_owned(), Value::Object(agent.options.clone()));
    Value::Object(map)
}

/// An agent as `/api/agent` lists it.
pub(crate) fn agent_v2_json(agent: &AgentProfile) -> Value {
    let rule = |rule: &PermissionRule| json!({ "action": rule.permission, "resource": rule.pattern, "effect": rule.action });
    let rules: Vec<Value> = agent.rules.iter().map(rule).collect();
    let mut map = Map::new();
    map.insert("id".to_owned(), Value::from(agent.name.as_str()));
    if let Some(name) = &agent.model {
        map.insert("model".to_owned(), json!({ "id": name.model, "providerID": name.provider }));
    }
    map.insert("request".to_owned(), json!({ "headers": {}, "body": {} }));
    for (key, text) in [("system", &agent.prompt), ("description", &agent.description)] {
        if let Some(text) = text {
            map.insert(key.to_owned(), Value::from(text.as_str()));
        }
    }
    map.insert("mode".to_owned(), Value::from(agent.mode.as_str()));
    map.insert("hidden".to_owned(), Value::from(agent.is_hidden));
    map.insert("permissions".to_owned(), Value::Array(rules));
    Value::Object(map)
}
