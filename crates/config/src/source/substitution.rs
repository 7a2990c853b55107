//! `{env:NAME}` and `{file:PATH}` in the text of a configuration file.
//!
//! They are replaced before the text is parsed, so that they can stand for numbers and tables, too. Inside of
//! a string the value is escaped: a variable cannot add keys.

use std::path::{Path, PathBuf};

use turnstone_core::jsonc::string_length;

use super::file_access::read_text_file;
use crate::environment::ConfigEnvironment;
use crate::error::ConfigError;

/// What replaces the references of a file.
pub(crate) enum ReferencePolicy<'e> {
    /// Their values: the file is the user's or trusted.
    Resolve(&'e ConfigEnvironment),
    /// Their own text, as strings: the keys that hold them are not in force.
    Keep,
}

const KINDS: [&str; 2] = ["{env:", "{file:"];

/// True if a text has a reference.
pub(crate) fn has_reference(text: &str) -> bool {
    KINDS.iter().any(|kind| text.contains(kind))
}

/// Replaces the references of `plain`, a JSON text without comments.
///
/// # Errors
///
/// A file that a reference names is missing or cannot be read.
pub(crate) fn substitute_references(
    plain: &str,
    file: &Path,
    policy: &ReferencePolicy<'_>,
) -> Result<String, ConfigError> {
    if !has_reference(plain) {
        return Ok(plain.to_owned());
    }
    let mut replaced = String::with_capacity(plain.len());
    let mut rest = plain;
    while let Some(next) = rest.chars().next() {
        let is_string = next == '"';
        let is_reference = KINDS.iter().any(|kind| rest.starts_with(kind));
        let length = match (is_string, rest.find('}')) {
            (true, _) => string_length(rest),
            (false, Some(end)) if is_reference => end + 1,
            (false, _) => next.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        let line = || Some(replaced.matches('\n').count() + 1);
        let located = |error: ConfigError| ConfigError { line: line(), ..error };
        let text = match policy {
            ReferencePolicy::Resolve(environment) if is_string => {
                resolve(piece, file, environment, true).map_err(located)?
            }
            ReferencePolicy::Resolve(environment) if length > 1 => {
                resolve(piece, file, environment, false).map_err(located)?
            }
            ReferencePolicy::Keep if !is_string && is_reference => {
                serde_json::Value::from(piece).to_string()
            }
            ReferencePolicy::Resolve(_) | ReferencePolicy::Keep => piece.to_owned(),
        };
        replaced.push_str(&text);
        rest = after;
    }
    Ok(replaced)
}

/// Replaces all references of a piece of text; a variable that is not set is empty.
fn resolve(
    piece: &str,
    file: &Path,
    environment: &ConfigEnvironment,
    is_string: bool,
) -> Result<String, ConfigError> {
    let mut resolved = String::with_capacity(piece.len());
    let mut rest = piece;
    loop {
        let start = KINDS.iter().filter_map(|kind| rest.find(kind)).min();
        let Some((start, end)) = start.and_then(|at| Some((at, at + rest.get(at..)?.find('}')?)))
        else {
            resolved.push_str(rest);
            return Ok(resolved);
        };
        let (before, reference) = (&rest[..start], &rest[start + 1..end]);
        let value = match reference.split_once(':') {
            Some(("env", name)) => environment.variable(name).unwrap_or_default().to_owned(),
            Some((_, path)) => read_referenced_file(path, file, environment)?,
            None => String::new(),
        };
        resolved.push_str(before);
        match is_string {
            true => resolved.push_str(&escape(&value)),
            false => resolved.push_str(&value),
        }
        rest = &rest[end + 1..];
    }
}

/// The value as it is written inside of a JSON string.
fn escape(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

fn read_referenced_file(
    path: &str,
    file: &Path,
    environment: &ConfigEnvironment,
) -> Result<String, ConfigError> {
    let whole = match path.strip_prefix("~/") {
        Some(inner) => match environment.home() {
            Some(home) => home.join(inner),
            None => return Err(ConfigError::new(file, "the home directory is not known")),
        },
        None => file.parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path)),
    };
    match read_text_file(&whole) {
        Ok(Some(text)) => Ok(text.trim().to_owned()),
        Ok(None) => Err(ConfigError::new(file, "the file that {file:…} names does not exist")),
        Err(error) => {
            let message =
                format!("the file that {{file:…}} names cannot be read: {}", error.message);
            Err(ConfigError::new(file, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> ConfigEnvironment {
        let variables = [("QUOTE", "a\"b\\c\n"), ("NUMBER", "7")];
        ConfigEnvironment::default()
            .with_variables(&variables.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn variables_are_escaped_in_strings_and_verbatim_outside() {
        let environment = environment();
        let policy = ReferencePolicy::Resolve(&environment);
        let text =
            r#"{"a": "x{env:QUOTE}y", "b": {env:NUMBER}, "c": "{env:ABSENT}", "d": "{env:"}"#;
        let text = substitute_references(text, Path::new("f"), &policy).expect("substituted");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let wanted = serde_json::json!({ "a": "xa\"b\\c\ny", "b": 7, "c": "", "d": "{env:" });
        assert_eq!(value, wanted);
    }

    #[test]
    fn file_is_read_relative_to_the_configuration_and_must_exist() {
        let dir = tempfile::tempdir().expect("a directory");
        fs_err::write(dir.path().join("key"), "se\"cret\n").expect("written");
        let environment = environment();
        let policy = ReferencePolicy::Resolve(&environment);
        let file = dir.path().join("opencode.json");
        let text = substitute_references(r#"{"a":"{file:key}"}"#, &file, &policy);
        assert_eq!(text.expect("substituted"), r#"{"a":"se\"cret"}"#);
        let error = substitute_references("{\n\"a\":\n\"{file:none}\"}", &file, &policy);
        let error = error.expect_err("missing");
        assert_eq!((error.line, error.file), (Some(3), file));
    }

    #[test]
    fn kept_references_become_strings() {
        let text = substitute_references(
            r#"{"a": {env:X}, "b": "{file:y}"}"#,
            Path::new("f"),
            &ReferencePolicy::Keep,
        );
        assert_eq!(text.expect("kept"), r#"{"a": "{env:X}", "b": "{file:y}"}"#);
    }
}
