//! Stored keys: our own `auth.json`, and OpenCode's, which is only read.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::environment::ConfigEnvironment;
use crate::private_file::write_private_file;
use crate::secret::Secret;
use crate::source::read_text_file;

const FILE_NAME: &str = "auth.json";
const VARIABLE: &str = "OPENCODE_AUTH_CONTENT";

/// The stored keys cannot be read or written. The message quotes nothing of them.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the stored keys in {}: {reason}", path.display())]
pub struct AuthError {
    /// The file, or the name of the variable.
    pub path: PathBuf,
    /// What failed.
    pub action: &'static str,
    /// Why.
    pub reason: String,
}

/// What kind of entry a provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKeyKind {
    /// A key for the provider's API.
    Api,
    /// A sign-in, which is not supported.
    OAuth,
    /// An organisation's sign-in, which is not supported.
    WellKnown,
}

/// The entry of one provider.
#[derive(Clone, Debug)]
pub struct StoredKey {
    /// The provider.
    pub provider: String,
    /// Its kind; only [`StoredKeyKind::Api`] can be used.
    pub kind: StoredKeyKind,
    /// The key, if it is one.
    pub key: Option<Secret>,
    /// The file, or the variable, that holds it.
    pub source: PathBuf,
}

/// All stored keys; the first entry of a provider counts.
#[derive(Clone, Debug, Default)]
pub struct AuthFile {
    entries: Vec<StoredKey>,
}

impl AuthFile {
    /// Reads the keys: `OPENCODE_AUTH_CONTENT` alone if it is set, else our own file, then OpenCode's.
    /// An entry that is not understood is skipped.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is no JSON.
    pub fn read(environment: &ConfigEnvironment) -> Result<Self, AuthError> {
        let mut auth = Self::default();
        if let Some(text) = environment.variable(VARIABLE) {
            auth.add(Path::new(VARIABLE), text)?;
            return Ok(auth);
        }
        for folder in [Some(environment.data()), environment.opencode_data()].into_iter().flatten()
        {
            let path = folder.join(FILE_NAME);
            let text = read_text_file(&path).map_err(|error| AuthError {
                path: path.clone(),
                action: "read",
                reason: error.message,
            })?;
            if let Some(text) = text {
                auth.add(&path, &text)?;
            }
        }
        Ok(auth)
    }

    /// Lists the entries that count, by provider.
    #[must_use]
    pub fn list(&self) -> Vec<&StoredKey> {
        let mut listed: Vec<&StoredKey> = Vec::new();
        for entry in &self.entries {
            if !listed.iter().any(|known| known.provider == entry.provider) {
                listed.push(entry);
            }
        }
        listed.sort_by(|a, b| a.provider.cmp(&b.provider));
        listed
    }

    /// Returns the usable key of a provider.
    #[must_use]
    pub fn find_key(&self, provider: &str) -> Option<&Secret> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.provider == provider && entry.kind == StoredKeyKind::Api);
        entry?.key.as_ref()
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), AuthError> {
        for (provider, entry) in parse(path, text)? {
            let kind = match entry["type"].as_str() {
                Some("api") => StoredKeyKind::Api,
                Some("oauth") => StoredKeyKind::OAuth,
                Some("wellknown") => StoredKeyKind::WellKnown,
                _ => continue,
            };
            let key = entry["key"].as_str().filter(|key| !key.trim().is_empty());
            if kind == StoredKeyKind::Api && key.is_none() {
                continue;
            }
            let key = key.filter(|_| kind == StoredKeyKind::Api);
            let key = key.map(|key| Secret::new(key.trim().to_owned()));
            self.entries.push(StoredKey { provider, kind, key, source: path.to_owned() });
        }
        Ok(())
    }

    /// Stores a key in our own file, which only its owner can read.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written; it is unchanged then.
    pub fn store(data: &Path, provider: &str, key: &Secret) -> Result<(), AuthError> {
        change(data, |entries| {
            let entry = json!({ "type": "api", "key": key.expose() });
            entries.insert(provider.to_owned(), entry);
        })
    }

    /// Removes the key of a provider from our own file; returns whether there was one.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written; it is unchanged then.
    pub fn remove(data: &Path, provider: &str) -> Result<bool, AuthError> {
        let mut was_there = false;
        change(data, |entries| was_there = entries.shift_remove(provider).is_some())?;
        Ok(was_there)
    }
}

fn parse(path: &Path, text: &str) -> Result<Map<String, Value>, AuthError> {
    // The parser's message could name a character of a key.
    serde_json::from_str(text).map_err(|error| AuthError {
        path: path.to_owned(),
        action: "read",
        reason: format!("line {} is not the JSON of stored keys", error.line()),
    })
}

fn change(data: &Path, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<(), AuthError> {
    let path = data.join(FILE_NAME);
    let failed = |action, reason| AuthError { path: path.clone(), action, reason };
    let text = read_text_file(&path).map_err(|error| failed("read", error.message))?;
    let mut entries = match text {
        Some(text) => parse(&path, &text)?,
        None => Map::new(),
    };
    edit(&mut entries);
    let text = serde_json::to_string_pretty(&entries);
    let text = Secret::new(text.map_err(|error| failed("write", error.to_string()))?);
    write_private_file(&path, |file| writeln!(file, "{}", text.expose()))
        .map_err(|error| failed("write", error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn environment(data: &Path, variables: &[(&str, &str)]) -> ConfigEnvironment {
        let variables: Vec<(OsString, OsString)> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        ConfigEnvironment::new(data, data, data).with_variables(&variables)
    }

    #[test]
    fn key_is_stored_privately_and_other_entries_survive() {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().join(FILE_NAME);
        fs_err::write(&path, r#"{"other":{"type":"oauth","refresh":"r","x":1}}"#).expect("written");
        AuthFile::store(data.path(), "anthropic", &key("k1")).expect("stored");
        AuthFile::store(data.path(), "anthropic", &key("k2")).expect("replaced");
        let mode = fs_err::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let environment = environment(data.path(), &[]);
        let auth = AuthFile::read(&environment).expect("read");
        assert_eq!(auth.find_key("anthropic"), Some(&key("k2")));
        assert_eq!(auth.find_key("other"), None, "a sign-in is no key");
        assert_eq!(auth.list().len(), 2);
        assert!(AuthFile::remove(data.path(), "anthropic").expect("removed"));
        assert!(!AuthFile::remove(data.path(), "anthropic").expect("gone"));
        let stored: Value =
            serde_json::from_str(&fs_err::read_to_string(&path).expect("read")).expect("JSON");
        assert_eq!(stored, json!({ "other": { "type": "oauth", "refresh": "r", "x": 1 } }));
    }

    #[test]
    fn own_file_wins_over_opencodes_and_the_variable_over_both() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, opencode_data) = (dir.path().join("ours"), dir.path().join("opencode"));
        fs_err::create_dir_all(&opencode_data).expect("made");
        let share = ("XDG_DATA_HOME", dir.path().to_str().expect("text"));
        let theirs =
            r#"{"a":{"type":"api","key":"theirs"},"b":{"type":"api","key":"theirs"},"c":7}"#;
        fs_err::write(opencode_data.join(FILE_NAME), theirs).expect("written");
        AuthFile::store(&data, "a", &key("ours")).expect("stored");
        let auth = AuthFile::read(&environment(&data, &[share])).expect("read");
        assert_eq!(auth.find_key("a"), Some(&key("ours")));
        assert_eq!(auth.find_key("b"), Some(&key("theirs")));
        let content = (VARIABLE, r#"{"a":{"type":"api","key":"variable"}}"#);
        let auth = AuthFile::read(&environment(&data, &[share, content])).expect("read");
        assert_eq!(auth.find_key("a"), Some(&key("variable")));
        assert_eq!(auth.find_key("b"), None);
    }

    #[test]
    fn damaged_file_is_an_error_that_quotes_nothing() {
        let data = tempfile::tempdir().expect("a directory");
        fs_err::write(data.path().join(FILE_NAME), "{\"a\": hunter2}").expect("written");
        let environment = environment(data.path(), &[]);
        let error = AuthFile::read(&environment).expect_err("damaged").to_string();
        assert!(error.contains("line 1") && !error.contains("hunter2"), "{error}");
        assert!(AuthFile::store(data.path(), "a", &key("k")).is_err(), "it is not overwritten");
    }
}
