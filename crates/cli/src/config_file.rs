//! The configuration file and its defaults.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use turnstone_engine::WatchLimits;
use turnstone_snapshot::read_bounded_file;

use crate::error::CliError;

/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
const MILLIS_PER_MINUTE: i64 = 60_000;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// URL of a JSON schema, for editors only.
    #[serde(rename = "$schema")]
    pub(crate) schema: Option<String>,
    /// What to do with a command when there is no space for its undo data.
    pub(crate) undo: UndoSetting,
    /// Snapshot settings.
    pub(crate) snapshot: SnapshotSettings,
    /// Settings of `exec`.
    pub(crate) exec: ExecSettings,
    /// What `serve` does.
    pub(crate) serve: ServeSettings,
    /// What `serve` watches.
    pub(crate) watch: WatchSettings,
    /// Permission rules: one action, or a table.
    pub(crate) permission: Option<serde_json::Value>,
}

/// Whether a command runs when there is no space for its undo data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UndoSetting {
    /// The command is refused.
    #[default]
    Required,
    /// The command runs and cannot be undone.
    BestEffort,
}

/// Settings of `exec`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExecSettings {
    /// Whether the output of commands is stored.
    pub(crate) keep_output: bool,
    /// Whether commands are traced, here and over HTTP, so that their changes can be distinguished from those of others.
    pub(crate) trace: bool,
}

impl Default for ExecSettings {
    fn default() -> Self {
        Self { keep_output: true, trace: true }
    }
}

/// Settings of `serve`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServeSettings {
    /// Whether the server runs the agent itself.
    pub(crate) agent: bool,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self { agent: true }
    }
}

/// Snapshot settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SnapshotSettings {
    /// Larger files are skipped.
    #[serde(deserialize_with = "bytes")]
    pub(crate) max_file_size: u64,
    /// Byte limit of one store.
    #[serde(deserialize_with = "bytes")]
    pub(crate) budget: u64,
    /// Byte limit of all stores together.
    #[serde(deserialize_with = "bytes")]
    pub(crate) total_budget: u64,
    /// Days to keep captures that are not pinned.
    pub(crate) keep_days: u32,
    /// Directory names skipped outside of git repositories; `None` for the defaults.
    pub(crate) generated: Option<Vec<String>>,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self {
            max_file_size: 50_000_000,
            budget: 2 << 30,
            total_budget: 10 << 30,
            keep_days: 7,
            generated: None,
        }
    }
}

/// What `serve` watches, so that captures cost what changed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WatchSettings {
    /// Project directories at a time; 0: none.
    pub(crate) max_roots: usize,
    /// Memory limit of all together; the directory in use may take more.
    #[serde(deserialize_with = "bytes")]
    pub(crate) max_memory: u64,
    /// Minutes without use after which a directory is no longer watched.
    pub(crate) idle_minutes: u32,
}

impl Default for WatchSettings {
    fn default() -> Self {
        let WatchLimits { max_roots, max_memory, idle_millis } = WatchLimits::default();
        let idle_minutes = u32::try_from(idle_millis / MILLIS_PER_MINUTE).unwrap_or(u32::MAX);
        Self { max_roots, max_memory, idle_minutes }
    }
}

impl WatchSettings {
    /// The same for the engine.
    pub(crate) fn limits(&self) -> WatchLimits {
        let Self { max_roots, max_memory, idle_minutes } = *self;
        let idle_millis = i64::from(idle_minutes) * MILLIS_PER_MINUTE;
        WatchLimits { max_roots, max_memory, idle_millis }
    }
}

impl SnapshotSettings {
    /// Retention of unpinned captures, in milliseconds.
    pub(crate) fn retention_millis(&self) -> i64 {
        i64::from(self.keep_days).saturating_mul(86_400_000)
    }
}

impl ConfigFile {
    /// Reads the file; defaults if it does not exist.
    ///
    /// # Errors
    ///
    /// [`CliError::Refused`] if it is invalid or has an unknown key: a typo must not be ignored.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let bytes = match read_bounded_file(path, MAX_FILE_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Self::default()),
            Err(source) => {
                let what = format!("cannot read the configuration file {}", path.display());
                return Err(CliError::File { what, source });
            }
        };
        serde_json::from_slice(&bytes).map_err(|error| CliError::Refused {
            what: format!("invalid configuration file {}: {error}", path.display()),
            hint: Some("correct the file, or replace it with `{}` for the defaults".to_owned()),
        })
    }
}

/// Reads a size: a number of bytes, or a text like `50 MB` or `2 GiB`.
fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum SizeValue {
        Number(u64),
        Text(String),
    }
    match SizeValue::deserialize(from)? {
        SizeValue::Number(number) => Ok(number),
        SizeValue::Text(text) => parse_size(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is not a size such as \"50 MB\" or \"2 GiB\""
            ))
        }),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_accepts_sizes_with_units_and_rejects_typos() {
        let read = |text: &str| serde_json::from_str::<ConfigFile>(text);
        let usual = read("{}").unwrap();
        assert_eq!(usual, ConfigFile::default());
        let some = r#"{"snapshot":{"max_file_size":"5 MB","budget":"1GiB","keep_days":30}}"#;
        let some = read(some).unwrap().snapshot;
        assert_eq!((some.max_file_size, some.budget, some.keep_days), (5_000_000, 1 << 30, 30));
        assert_eq!(some.total_budget, usual.snapshot.total_budget);
        let watch = read(r#"{"watch":{"max_roots":2,"max_memory":"1 MB"}}"#).unwrap().watch;
        assert_eq!((watch.max_roots, watch.max_memory, watch.idle_minutes), (2, 1_000_000, 30));
        assert!(read(r#"{"watch":{"roots":1}}"#).is_err());
        assert!(read(r#"{"snapshot":{"keep_day":1}}"#).is_err());
        assert!(read(r#"{"snapshot":{"budget":"much"}}"#).is_err());
        assert!(read(r#"{"snapshot":{"budget":"99999999999 GiB"}}"#).is_err());
        assert!(usual.exec.keep_output);
        let some = read(r#"{"exec":{"keep_output":false}}"#).unwrap().exec;
        assert!(!some.keep_output && some.trace);
        assert!(!read(r#"{"exec":{"trace":false}}"#).unwrap().exec.trace);
        assert!(usual.serve.agent && !read(r#"{"serve":{"agent":false}}"#).unwrap().serve.agent);
        assert_eq!(read(r#"{"undo":"best-effort"}"#).unwrap().undo, UndoSetting::BestEffort);
        assert!(read(r#"{"undo":"maybe"}"#).is_err());
        assert!(read(r#"{"$schema":"x","permission":"ask"}"#).is_ok());
        let unknown = read(r#"{"elsewhere":1}"#).unwrap_err().to_string();
        assert!(unknown.contains("`elsewhere`") && unknown.contains("`snapshot`"), "{unknown}");
    }
}
