//! Commands as clients see them.

use serde_json::{Map, Value, json};
use turnstone_config::CommandDefinition;

/// A command as `/command` lists it.
pub(crate) fn command_json(command: &CommandDefinition) -> Value {
    let mut map = common_fields(command);
    for (key, text) in [("model", &command.model), ("variant", &command.variant)] {
        if let Some(text) = text {
            map.insert(key.to_owned(), Value::from(text.as_str()));
        }
    }
    map.insert("source".to_owned(), Value::from("command"));
    map.insert("hints".to_owned(), json!(command.argument_placeholders()));
    Value::Object(map)
}

/// A command as `/api/command` lists it.
pub(crate) fn command_v2_json(command: &CommandDefinition) -> Value {
    let mut map = common_fields(command);
    if let Some((provider, model)) = command.model.as_deref().and_then(|m| m.split_once('/')) {
        map.insert("model".to_owned(), json!({ "id": model, "providerID": provider }));
    }
    Value::Object(map)
}

fn common_fields(command: &CommandDefinition) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("name".to_owned(), Value::from(command.name.as_str()));
    for (key, value) in [("description", &command.description), ("agent", &command.agent)] {
        if let Some(text) = value {
            map.insert(key.to_owned(), Value::from(text.as_str()));
        }
    }
    map.insert("template".to_owned(), Value::from(command.template.as_str()));
    if let Some(subtask) = command.subtask {
        map.insert("subtask".to_owned(), Value::from(subtask));
    }
    map
}
