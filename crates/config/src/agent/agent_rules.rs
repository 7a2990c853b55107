//! The permission rules of agents, source by source, in the order in which the engine evaluates them.

use serde_json::{Map, Value};
use turnstone_core::permission::{
    BuiltinAgent, PermissionRule, RuleDirectories, agent_rules, default_rules, parse_agent_rules,
    tightening_rules,
};

use crate::error::ConfigError;
use crate::source::{LayerOrigin, SettingsLayer};

/// Collects the rules of one agent.
pub(super) fn list_agent_rules(
    layers: &[SettingsLayer],
    home: &str,
    (name, builtin): (&str, Option<BuiltinAgent>),
) -> Result<Vec<PermissionRule>, ConfigError> {
    let directories = RuleDirectories::default();
    let mut rules = default_rules(&directories);
    rules.extend(builtin.into_iter().flat_map(|agent| agent_rules(agent, &directories)));
    for origin in [LayerOrigin::User, LayerOrigin::Project] {
        for layer in layers.iter().filter(|layer| layer.origin == origin) {
            add_rules(&mut rules, layer, home, (&layer.settings, &[]))?;
        }
    }
    for origin in [LayerOrigin::User, LayerOrigin::Project] {
        for layer in layers.iter().filter(|layer| layer.origin == origin) {
            for table in ["agent", "mode"] {
                let agents = layer.settings.get(table).and_then(Value::as_object);
                let fields = agents.and_then(|agents| agents.get(name)?.as_object());
                if let Some(fields) = fields {
                    add_rules(&mut rules, layer, home, (fields, &[table, name]))?;
                }
            }
        }
    }
    Ok(rules)
}

fn add_rules(
    rules: &mut Vec<PermissionRule>,
    layer: &SettingsLayer,
    home: &str,
    (fields, path): (&Map<String, Value>, &[&str]),
) -> Result<(), ConfigError> {
    let own = parse_agent_rules(fields, home).map_err(|error| {
        let key: Vec<&str> = path.iter().copied().chain(["permission"]).collect();
        let found = ConfigError::new(&layer.path, error.to_string());
        ConfigError { line: layer.find_line(&key), key: Some(key.join(".")), ..found }
    })?;
    match layer.is_trusted {
        true => rules.extend(own),
        false => {
            let tightening = tightening_rules(&own, rules);
            rules.extend(tightening);
        }
    }
    Ok(())
}
