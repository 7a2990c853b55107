//! Commands: texts with places for arguments, built in or written by people.

use crate::error::ConfigError;
use crate::settings_reader::SettingsReader;

const INIT: &str = include_str!("prompts/init.txt");
const REVIEW: &str = include_str!("prompts/review.txt");

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDefinition {
    /// The name by which it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The agent that it wants.
    pub agent: Option<String>,
    /// The model that it wants, as `provider/model`.
    pub model: Option<String>,
    /// The variant of that model.
    pub variant: Option<String>,
    /// The text, with `$1` and `$ARGUMENTS` where arguments go.
    pub template: String,
    /// True if it runs in a new session.
    pub subtask: Option<bool>,
}

impl CommandDefinition {
    /// Lists all commands: the built-in ones, which people may replace, then theirs by name.
    pub(crate) fn list(settings: &SettingsReader<'_>) -> Result<Vec<Self>, ConfigError> {
        let init = Self::builtin("init", "write AGENTS.md for this repository", INIT, None);
        let about = "review a change; uncommitted work by default";
        let mut commands = vec![init, Self::builtin("review", about, REVIEW, Some(true))];
        for (name, fields) in settings.tables("command")? {
            let command = Self::parse(&name, &fields)?;
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
            variant: None,
            template: template.to_owned(),
            subtask,
        }
    }

    fn parse(name: &str, fields: &SettingsReader<'_>) -> Result<Self, ConfigError> {
        let template = fields.text("template")?;
        Ok(Self {
            name: name.to_owned(),
            description: fields.text("description")?,
            agent: fields.text("agent")?,
            model: fields.text("model")?,
            variant: fields.text("variant")?,
            template: template
                .ok_or_else(|| fields.error("", "a command needs a text called template"))?,
            subtask: fields.flag("subtask")?,
        })
    }

    /// Returns the places for arguments: `$1`, `$2` … in order, then `$ARGUMENTS`.
    #[must_use]
    pub fn argument_placeholders(&self) -> Vec<String> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_placeholders_are_ordered_and_unique() {
        let template = "$2 $1 $2 $ARGUMENTS costs 5$ $x";
        let command = CommandDefinition::builtin("x", "", template, None);
        assert_eq!(command.argument_placeholders(), ["$1", "$2", "$ARGUMENTS"]);
    }
}
