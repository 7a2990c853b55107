//! Why a configuration cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

use turnstone_core::redact::redact_text;

/// A mistake in the configuration, with its position.
///
/// The message quotes no value of the file: a link may lead to a secret, and a value may be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, or the name of the environment variable.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// The key, as `agent.build.mode`.
    pub key: Option<String>,
    /// What is wrong and how to correct it.
    pub message: String,
}

impl ConfigError {
    pub(crate) fn new(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, key: None, message: message.into() }
    }

    /// Returns the file as it may be shown.
    #[must_use]
    pub fn shown_file(&self) -> String {
        redact_text(&self.file.display().to_string())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Configuration {} cannot be used: ", self.shown_file())?;
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{}: ", redact_text(key))?;
        }
        f.write_str(&redact_text(&self.message))
    }
}
