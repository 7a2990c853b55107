//! Commands: texts with places for arguments, built in or written by people.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::load::{OpenCodeConfig, invalid_config};
use crate::error::ApiError;

const INIT: &str = "Write or improve the file AGENTS.md at the root of this repository, so that an agent \
that has never seen it works well here.\n\nRead what is there first: README, build files, continuous \
integration, existing instruction files, and some of the code. Then write down, in at most 60 lines, what \
cannot be guessed: how to build, how to run all tests and a single one, how the code is laid out, which \
conventions it keeps, and what often fails. Leave out what any reader sees at once. If AGENTS.md \
exists, keep what is right in it.\n\n$ARGUMENTS\n";

const REVIEW: &str = "Review a change and report what is wrong with it. Change no file.\n\nWhat to \
review: $ARGUMENTS\nNothing named: everything that is not committed. A commit: that commit. A branch: \
what it adds to the default branch. A number or address of a pull request: that pull request.\n\nRead \
the whole of every file the change touches, not only its lines. Report bugs first, then missing tests, \
then what the next reader will stumble over; for each the file, the line, what happens and when. Report \
only what you have checked, and say so when there is nothing.\n";

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandConfig {
    /// What it is called by.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) description: Option<String>,
    /// The agent it wants.
    pub(crate) agent: Option<String>,
    /// The model it wants, as `provider/model`.
    pub(crate) model: Option<String>,
    /// The text, with `$1` and `$ARGUMENTS` where arguments go.
    pub(crate) template: String,
    /// True if it runs in a new session.
    pub(crate) subtask: Option<bool>,
}

impl CommandConfig {
    /// All commands: the built-in ones, which people may replace, then theirs by name.
    pub(crate) fn list(config: &OpenCodeConfig) -> Result<Vec<Self>, ApiError> {
        let mut commands = vec![
            Self::builtin("init", "write AGENTS.md for this repository", INIT, None),
            Self::builtin(
                "review",
                "review a change; uncommitted work by default",
                REVIEW,
                Some(true),
            ),
        ];
        for (name, value) in config.table("command")? {
            let command = Self::parse(&name, &value)?;
            match commands.iter_mut().find(|known| known.name == name) {
                Some(known) => *known = command,
                None => commands.push(command),
            }
        }
        Ok(commands)
    }

    fn builtin(name: &str, description: &str, template: &str, subtask: Option<bool>) -> Self {
        Self {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            agent: None,
            model: None,
            template: template.to_owned(),
            subtask,
        }
    }

    fn parse(name: &str, value: &Value) -> Result<Self, ApiError> {
        let wrong =
            |what: &str| invalid_config(Path::new(name), &format!("a command needs {what}"));
        let fields = value.as_object().ok_or_else(|| wrong("a table"))?;
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(&format!("a text as {key}"))),
        };
        let subtask = match fields.get("subtask") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(subtask)) => Some(*subtask),
            Some(_) => return Err(wrong("true or false as subtask")),
        };
        Ok(Self {
            name: name.to_owned(),
            description: text("description")?,
            agent: text("agent")?,
            model: text("model")?,
            template: text("template")?.ok_or_else(|| wrong("a template"))?,
            subtask,
        })
    }

    /// The places for arguments: `$1`, `$2` … in order, then `$ARGUMENTS`.
    pub(crate) fn argument_placeholders(&self) -> Vec<String> {
        let mut numbers: Vec<u32> = Vec::new();
        for piece in self.template.split('$').skip(1) {
            let digits: String = piece.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(number) = digits.parse() {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut hints: Vec<String> = numbers.iter().map(|number| format!("${number}")).collect();
        if self.template.contains("$ARGUMENTS") {
            hints.push("$ARGUMENTS".to_owned());
        }
        hints
    }

    /// As `/command` lists it.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = self.common_fields();
        if let Some(model) = &self.model {
            map.insert("model".to_owned(), Value::from(model.as_str()));
        }
        map.insert("source".to_owned(), Value::from("command"));
        map.insert("hints".to_owned(), json!(self.argument_placeholders()));
        Value::Object(map)
    }

    /// As `/api/command` lists it.
    pub(crate) fn to_v2_json(&self) -> Value {
        let mut map = self.common_fields();
        if let Some((provider, model)) = self.model.as_deref().and_then(|m| m.split_once('/')) {
            map.insert("model".to_owned(), json!({ "id": model, "providerID": provider }));
        }
        Value::Object(map)
    }

    fn common_fields(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("name".to_owned(), Value::from(self.name.as_str()));
        for (key, value) in [("description", &self.description), ("agent", &self.agent)] {
            if let Some(text) = value {
                map.insert(key.to_owned(), Value::from(text.as_str()));
            }
        }
        map.insert("template".to_owned(), Value::from(self.template.as_str()));
        if let Some(subtask) = self.subtask {
            map.insert("subtask".to_owned(), Value::from(subtask));
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_placeholders_are_ordered_and_unique() {
        let command = CommandConfig::builtin("x", "", "$2 $1 $2 $ARGUMENTS costs 5$ $x", None);
        assert_eq!(command.argument_placeholders(), ["$1", "$2", "$ARGUMENTS"]);
    }
}
