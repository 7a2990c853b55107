//! Agents: the built-in ones with their rules, and those people configured.

use std::path::Path;

use serde_json::{Map, Value, json};
use turnstone_core::permission::{
    BuiltinAgent, PermissionRule, RuleDirectories, agent_rules, default_rules, parse_agent_rules,
    parse_rule_config,
};

use super::load::{OpenCodeConfig, invalid_config};
use crate::error::ApiError;

/// Fields of an agent that are read here; the others are options for its model.
const KNOWN_FIELDS: [&str; 17] = [
    "name",
    "description",
    "mode",
    "model",
    "variant",
    "prompt",
    "temperature",
    "top_p",
    "color",
    "hidden",
    "steps",
    "maxSteps",
    "permission",
    "tools",
    "disable",
    "options",
    "native",
];

/// One agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentConfig {
    /// What it is called by.
    pub(crate) name: String,
    /// True for a built-in agent.
    pub(crate) native: bool,
    /// `primary`, `subagent` or `all`.
    pub(crate) mode: String,
    /// True if people never choose it.
    pub(crate) hidden: bool,
    /// Its rules, weakest first.
    pub(crate) rules: Vec<PermissionRule>,
    /// The other fields in the names of `/agent`.
    pub(crate) fields: Map<String, Value>,
}

impl AgentConfig {
    /// All agents: the one that is used by default first, the others by name.
    pub(crate) fn list(config: &OpenCodeConfig) -> Result<Vec<Self>, ApiError> {
        let user = shared_rules(config)?;
        let mut agents: Vec<Self> =
            BuiltinAgent::ALL.into_iter().map(|agent| Self::builtin(agent, &user)).collect();
        let mut entries = config.table("mode")?;
        for value in entries.values_mut().filter_map(Value::as_object_mut) {
            value.insert("mode".to_owned(), Value::from("primary"));
        }
        entries.extend(config.table("agent")?);
        for (name, value) in entries {
            let Some(fields) = value.as_object() else {
                return Err(invalid_config(Path::new(&name), "an agent must be a table"));
            };
            if fields.get("disable") == Some(&Value::Bool(true)) {
                agents.retain(|agent| agent.name != name);
                continue;
            }
            match agents.iter_mut().find(|agent| agent.name == name) {
                Some(agent) => agent.configure(fields, &config.home)?,
                None => {
                    let mut agent = Self::custom(&name, &user);
                    agent.configure(fields, &config.home)?;
                    agents.push(agent);
                }
            }
        }
        let first = config.merged.get("default_agent").and_then(Value::as_str).unwrap_or("build");
        agents.sort_by(|a, b| (a.name != first, &a.name).cmp(&(b.name != first, &b.name)));
        Ok(agents)
    }

    /// The model it wants, as provider and model.
    pub(crate) fn model(&self) -> Option<(&str, &str)> {
        let model = self.fields.get("model")?;
        Some((model["providerID"].as_str()?, model["modelID"].as_str()?))
    }

    /// As `/agent` lists it.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".to_owned(), Value::from(self.name.as_str()));
        map.insert("mode".to_owned(), Value::from(self.mode.as_str()));
        map.insert("native".to_owned(), Value::from(self.native));
        if self.hidden {
            map.insert("hidden".to_owned(), Value::from(true));
        }
        map.insert("permission".to_owned(), json!(self.rules));
        map.extend(self.fields.clone());
        map.entry("options").or_insert_with(|| json!({}));
        Value::Object(map)
    }

    /// As `/api/agent` lists it.
    pub(crate) fn to_v2_json(&self) -> Value {
        let rule = |rule: &PermissionRule| json!({ "action": rule.permission, "resource": rule.pattern, "effect": rule.action });
        let rules: Vec<Value> = self.rules.iter().map(rule).collect();
        let mut map = Map::new();
        map.insert("id".to_owned(), Value::from(self.name.as_str()));
        if let Some((provider, model)) = self.model() {
            map.insert("model".to_owned(), json!({ "id": model, "providerID": provider }));
        }
        map.insert("request".to_owned(), json!({ "headers": {}, "body": {} }));
        for (ours, theirs) in [("prompt", "system"), ("description", "description")] {
            if let Some(value) = self.fields.get(ours) {
                map.insert(theirs.to_owned(), value.clone());
            }
        }
        map.insert("mode".to_owned(), Value::from(self.mode.as_str()));
        map.insert("hidden".to_owned(), Value::from(self.hidden));
        map.insert("permissions".to_owned(), Value::Array(rules));
        Value::Object(map)
    }

    fn builtin(agent: BuiltinAgent, user: &[PermissionRule]) -> Self {
        let directories = RuleDirectories::default();
        let mut rules = default_rules(&directories);
        rules.extend(agent_rules(agent, &directories));
        rules.extend(user.iter().cloned());
        let mut fields = Map::new();
        let description = match agent {
            BuiltinAgent::Build => Some("Works on the code with every tool the rules allow."),
            BuiltinAgent::Plan => Some("Thinks first: changes no file but plans."),
            BuiltinAgent::General => Some("Takes on a task of its own for another agent."),
            BuiltinAgent::Explore => Some("Looks around in the code and changes nothing."),
            BuiltinAgent::Compaction | BuiltinAgent::Title | BuiltinAgent::Summary => None,
        };
        if let Some(text) = description {
            fields.insert("description".to_owned(), Value::from(text));
        }
        let mode = if agent.is_subagent() { "subagent" } else { "primary" };
        Self {
            name: agent.as_str().to_owned(),
            native: true,
            mode: mode.to_owned(),
            hidden: agent.is_hidden(),
            rules,
            fields,
        }
    }

    fn custom(name: &str, user: &[PermissionRule]) -> Self {
        let mut rules = default_rules(&RuleDirectories::default());
        rules.extend(user.iter().cloned());
        let (name, mode) = (name.to_owned(), "all".to_owned());
        Self { name, native: false, mode, hidden: false, rules, fields: Map::new() }
    }

    /// Applies the configured fields.
    fn configure(&mut self, value: &Map<String, Value>, home: &str) -> Result<(), ApiError> {
        let name = self.name.clone();
        let wrong =
            |what: &str| invalid_config(Path::new(&name), &format!("an agent has no such {what}"));
        match value.get("mode").map(Value::as_str) {
            None => {}
            Some(Some(mode @ ("primary" | "subagent" | "all"))) => mode.clone_into(&mut self.mode),
            Some(_) => return Err(wrong("mode")),
        }
        match value.get("hidden") {
            None => {}
            Some(Value::Bool(hidden)) => self.hidden = *hidden,
            Some(_) => return Err(wrong("hidden")),
        }
        match value.get("model").map(|model| model.as_str().and_then(|m| m.split_once('/'))) {
            None => {}
            Some(Some((provider, model))) => {
                let model = json!({ "providerID": provider, "modelID": model });
                self.fields.insert("model".to_owned(), model);
            }
            Some(None) => return Err(wrong("model")),
        }
        for (theirs, ours) in [
            ("top_p", "topP"),
            ("maxSteps", "steps"),
            ("steps", "steps"),
            ("temperature", "temperature"),
        ] {
            match value.get(theirs) {
                None => {}
                Some(number @ Value::Number(_)) => {
                    drop(self.fields.insert(ours.to_owned(), number.clone()))
                }
                Some(_) => return Err(wrong(theirs)),
            }
        }
        for key in ["description", "variant", "prompt", "color"] {
            match value.get(key) {
                None => {}
                Some(text @ Value::String(_)) => {
                    drop(self.fields.insert(key.to_owned(), text.clone()))
                }
                Some(_) => return Err(wrong(key)),
            }
        }
        self.read_options(value);
        let own = parse_agent_rules(value, home);
        self.rules.extend(own.map_err(|e| invalid_config(Path::new(&self.name), &e.to_string()))?);
        Ok(())
    }

    fn read_options(&mut self, value: &Map<String, Value>) {
        let mut options = match value.get("options") {
            Some(Value::Object(options)) => options.clone(),
            _ => Map::new(),
        };
        let others = value.iter().filter(|(key, _)| !KNOWN_FIELDS.contains(&key.as_str()));
        options.extend(others.map(|(key, value)| (key.clone(), value.clone())));
        self.fields.insert("options".to_owned(), Value::Object(options));
    }
}

/// The permission rules for all agents.
fn shared_rules(config: &OpenCodeConfig) -> Result<Vec<PermissionRule>, ApiError> {
    match config.merged.get("permission") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(setting) => parse_rule_config(setting, &config.home)
            .map_err(|error| invalid_config(Path::new("permission"), &error.to_string())),
    }
}
