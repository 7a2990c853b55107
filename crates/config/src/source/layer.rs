//! One source of a configuration: a file, a Markdown file, or a variable.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use turnstone_core::front_matter::split_front_matter;
use turnstone_core::jsonc::strip_comments;

use super::key_lines::find_key_line;
use super::substitution::{ReferencePolicy, has_reference, substitute_references};
use crate::environment::ConfigEnvironment;
use crate::error::ConfigError;
use crate::trust::{RestrictedKey, TrustedFiles, restrict_settings};

/// Who wrote a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerOrigin {
    /// The user or an administrator.
    User,
    /// The repository that is worked on.
    Project,
}

/// One source with its settings, after references and trust were taken into account.
pub(crate) struct SettingsLayer {
    /// The file, or the name of a variable.
    pub(crate) path: PathBuf,
    pub(crate) origin: LayerOrigin,
    pub(crate) settings: Map<String, Value>,
    /// The same with `{env:…}` and `{file:…}` as they are written: what they stand for is never shown.
    pub(crate) shown: Map<String, Value>,
    /// What the source sets and is not in force; empty for trusted files.
    pub(crate) restricted: Vec<RestrictedKey>,
    /// True for the user's files and for a project's files that the user trusts.
    pub(crate) is_trusted: bool,
    text: String,
}

/// Decides how the files of one origin are read.
pub(crate) struct LayerReader<'e> {
    pub(crate) environment: &'e ConfigEnvironment,
    pub(crate) origin: LayerOrigin,
    pub(crate) trusted: &'e TrustedFiles,
}

impl LayerReader<'_> {
    /// Reads a JSON text.
    ///
    /// # Errors
    ///
    /// It is no JSON, no object, or a file that it names cannot be read.
    pub(crate) fn read_json(
        &self,
        path: &Path,
        text: String,
    ) -> Result<SettingsLayer, ConfigError> {
        let is_trusted = self.is_trusted(path, &text);
        let plain = strip_comments(&text);
        if plain.trim().is_empty() {
            return Ok(self.layer((path, text), [Map::new(), Map::new()], is_trusted, true));
        }
        let parse = |policy: &ReferencePolicy<'_>| {
            parse_object(path, &substitute_references(&plain, path, policy)?)
        };
        let shown = parse(&ReferencePolicy::Keep)?;
        let settings = match is_trusted && has_reference(&plain) {
            true => parse(&ReferencePolicy::Resolve(self.environment))?,
            false => shown.clone(),
        };
        Ok(self.layer((path, text), [settings, shown], is_trusted, true))
    }

    /// Reads the Markdown file of an agent or a command called `name`: `kind` is the table it belongs to, and
    /// `body` the field that holds the text below the head.
    ///
    /// # Errors
    ///
    /// The head is not understood.
    pub(crate) fn read_markdown(
        &self,
        path: &Path,
        text: String,
        (kind, body, name): (&str, &str, &str),
    ) -> Result<SettingsLayer, ConfigError> {
        let is_trusted = self.is_trusted(path, &text);
        let (mut fields, rest) =
            split_front_matter(&text).map_err(|message| ConfigError::new(path, message))?;
        if kind == "mode" {
            fields.insert("mode".to_owned(), Value::from("primary"));
        }
        fields.insert(body.to_owned(), Value::from(rest));
        let named = Map::from_iter([(name.to_owned(), Value::Object(fields))]);
        let kind = if kind == "mode" { "agent" } else { kind };
        let settings = Map::from_iter([(kind.to_owned(), Value::Object(named))]);
        Ok(self.layer((path, text), [settings.clone(), settings], is_trusted, false))
    }

    fn is_trusted(&self, path: &Path, text: &str) -> bool {
        match self.origin {
            LayerOrigin::User => true,
            LayerOrigin::Project => self.trusted.is_trusted(path, text),
        }
    }

    fn layer(
        &self,
        (path, text): (&Path, String),
        [mut settings, mut shown]: [Map<String, Value>; 2],
        is_trusted: bool,
        has_references: bool,
    ) -> SettingsLayer {
        let mut restricted = Vec::new();
        if !is_trusted {
            restricted = restrict_settings(&mut settings, has_references);
            shown.clone_from(&settings);
        }
        let (path, origin) = (path.to_owned(), self.origin);
        SettingsLayer { path, origin, settings, shown, restricted, is_trusted, text }
    }
}

impl SettingsLayer {
    /// Returns the line of a key, counted from 1; nothing if it is not a key of a JSON text.
    pub(crate) fn find_line(&self, key: &[&str]) -> Option<usize> {
        find_key_line(&self.text, key)
    }

    /// True if the layer sets a key.
    pub(crate) fn has(&self, key: &[&str]) -> bool {
        self.find(key).is_some()
    }

    /// Returns the value of a nested key.
    pub(crate) fn find(&self, key: &[&str]) -> Option<&Value> {
        find_value(&self.settings, key)
    }

    /// Returns the whole text of the source, as its trust is recorded.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn parse_object(path: &Path, plain: &str) -> Result<Map<String, Value>, ConfigError> {
    match serde_json::from_str(plain) {
        Ok(Value::Object(settings)) => Ok(settings),
        Ok(_) => {
            let error = ConfigError::new(path, "it must be a JSON object: { … }");
            Err(ConfigError { line: Some(1), ..error })
        }
        Err(error) => {
            let line = Some(error.line());
            // The parser's message names the position and quotes nothing.
            Err(ConfigError { line, ..ConfigError::new(path, error.to_string()) })
        }
    }
}

/// Returns the value of a nested key.
fn find_value<'s>(settings: &'s Map<String, Value>, key: &[&str]) -> Option<&'s Value> {
    let (first, rest) = key.split_first()?;
    let value = settings.get(*first)?;
    match rest.is_empty() {
        true => Some(value),
        false => find_value(value.as_object()?, rest),
    }
}
