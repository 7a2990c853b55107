//! Which files make up the configuration of a place, and how they are laid over one another.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use turnstone_core::front_matter;
use turnstone_core::redact::redact_text;
use turnstone_engine::read_bounded_file;

use super::{ShownConfig, jsonc};
use crate::app::AppState;
use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most Markdown files of one folder.
const MAX_MARKDOWN_FILES: usize = 1_000;
/// How deep such a folder may be nested.
const MAX_FOLDER_DEPTH: usize = 4;
/// The names of a configuration file, the stronger one last.
const CONFIG_FILE_NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// A configuration, merged: what is nearer to the work is stronger. Holds secrets: never print it.
#[derive(Clone, Default)]
pub(crate) struct OpenCodeConfig {
    pub(super) merged: Map<String, Value>,
    pub(super) home: String,
}

/// A file that cannot be used; the response names it and the reason.
pub(super) fn invalid_config(path: &Path, message: &str) -> ApiError {
    // The path may be a key of the configuration, and the message may quote one.
    let shown = redact_text(&path.display().to_string());
    let words = format!("Configuration {shown} cannot be used: {}", redact_text(message));
    ApiError::tagged(StatusCode::BAD_REQUEST, "ConfigInvalidError", &words)
        .with_field("path", shown)
}

/// The configuration that holds in a place. Reads files.
pub(crate) fn project_config(
    app: &AppState,
    place: &ProjectDirectory,
) -> Result<OpenCodeConfig, ApiError> {
    let mut config = global_config(app)?;
    if let Some(file) = environment_variable(app, "OPENCODE_CONFIG") {
        config.merge_file(&place.directory.join(file))?;
    }
    let root = ConfinedRoot::open(&place.root)?;
    let inner = place.directory.strip_prefix(&place.root).unwrap_or(Path::new(""));
    let mut levels: Vec<&Path> = inner.ancestors().collect();
    levels.reverse();
    let project = ConfigRoot { root: &root, at: &place.root };
    for level in &levels {
        config.merge_config_files(&project, level)?;
    }
    for level in &levels {
        let folder = level.join(".opencode");
        config.merge_config_files(&project, &folder)?;
        config.merge_markdown_folders(&project, &folder)?;
    }
    if let Some(text) = environment_variable(app, "OPENCODE_CONFIG_CONTENT") {
        config.merge_text(Path::new("OPENCODE_CONFIG_CONTENT"), &text)?;
    }
    Ok(config)
}

/// The configuration of this user, wherever the work is.
pub(crate) fn global_config(app: &AppState) -> Result<OpenCodeConfig, ApiError> {
    let folders = &app.settings().folders;
    let mut config =
        OpenCodeConfig { home: folders.home.display().to_string(), ..OpenCodeConfig::default() };
    let own = folders.config.join("opencode");
    for folder in [own.clone(), folders.home.join(".opencode")] {
        if folder == own {
            config.merge_file(&folder.join("config.json"))?;
        }
        for name in CONFIG_FILE_NAMES {
            config.merge_file(&folder.join(name))?;
        }
        if folder.is_dir() {
            let root = ConfinedRoot::open(&folder)?;
            let project = ConfigRoot { root: &root, at: &folder };
            config.merge_markdown_folders(&project, Path::new(""))?;
        }
    }
    Ok(config)
}

fn environment_variable(app: &AppState, name: &str) -> Option<String> {
    let mut all = app.settings().variables.iter();
    let (_, value) = all.find(|(key, _)| key == name)?;
    value.to_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A directory whose files are read without leaving it.
struct ConfigRoot<'p> {
    root: &'p ConfinedRoot,
    at: &'p Path,
}

impl ConfigRoot<'_> {
    /// The text of a file; nothing if there is none. A link is followed if it stays inside.
    fn read_text(&self, path: &Path) -> Result<Option<String>, ApiError> {
        let whole = self.at.join(path);
        let below = ConfinedPath::parse(&path.to_string_lossy())?;
        let bytes = match self.root.read(&below, MAX_FILE_BYTES) {
            Err(ConfinedPathError::Symlink(_)) => {
                let real = fs_err::canonicalize(&whole)
                    .map_err(|e| invalid_config(&whole, &e.to_string()))?;
                let Ok(inside) = real.strip_prefix(self.at) else {
                    return Err(invalid_config(&whole, "it leads out of the project"));
                };
                let below = ConfinedPath::parse(&inside.to_string_lossy())?;
                self.root.read(&below, MAX_FILE_BYTES)
            }
            read => read,
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(ConfinedPathError::Missing(_)) => return Ok(None),
            // It may hold a denial, so a pipe or a folder is not taken for an absent file.
            Err(ConfinedPathError::WrongKind(_)) => {
                return Err(invalid_config(&whole, "it is not a regular file"));
            }
            Err(ConfinedPathError::TooLarge(_)) => {
                return Err(invalid_config(&whole, "it is too large"));
            }
            Err(error) => return Err(error.into()),
        };
        String::from_utf8(bytes).map(Some).map_err(|_| invalid_config(&whole, "it is no text"))
    }

    /// The Markdown files of a folder and below, by their names without the ending.
    fn list_markdown(&self, folder: &Path) -> Result<Vec<(String, PathBuf)>, ApiError> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), folder.to_owned(), 0)];
        while let Some((prefix, path, depth)) = open.pop() {
            let below = ConfinedPath::parse(&path.to_string_lossy())?;
            let entries = match self.root.list(&below, MAX_MARKDOWN_FILES) {
                Ok(entries) => entries,
                Err(ConfinedPathError::Missing(_) | ConfinedPathError::WrongKind(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            for entry in entries {
                let inner = path.join(&entry.name);
                if entry.is_dir && depth < MAX_FOLDER_DEPTH {
                    open.push((format!("{prefix}{}/", entry.name), inner, depth + 1));
                } else if let Some(name) = entry.name.strip_suffix(".md") {
                    found.push((format!("{prefix}{name}"), inner));
                }
            }
        }
        found.sort();
        match found.len() > MAX_MARKDOWN_FILES {
            true => Err(invalid_config(&self.at.join(folder), "there are too many files")),
            false => Ok(found),
        }
    }
}

impl OpenCodeConfig {
    fn merge_text(&mut self, path: &Path, text: &str) -> Result<(), ApiError> {
        let value =
            jsonc::parse_jsonc(text).map_err(|error| invalid_config(path, &error.to_string()))?;
        match value {
            Value::Object(map) => merge_tables(&mut self.merged, map),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Err(invalid_config(path, "it is not an object"));
            }
        }
        Ok(())
    }

    /// A file of the user's own, wherever a link leads.
    fn merge_file(&mut self, path: &Path) -> Result<(), ApiError> {
        let bytes = match read_bounded_file(path, MAX_FILE_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(error) => return Err(invalid_config(path, &error.to_string())),
        };
        let text = String::from_utf8(bytes).map_err(|_| invalid_config(path, "it is no text"))?;
        self.merge_text(path, &text)
    }

    fn merge_config_files(
        &mut self,
        project: &ConfigRoot<'_>,
        folder: &Path,
    ) -> Result<(), ApiError> {
        for name in CONFIG_FILE_NAMES {
            let path = folder.join(name);
            if let Some(text) = project.read_text(&path)? {
                self.merge_text(&project.at.join(&path), &text)?;
            }
        }
        Ok(())
    }

    /// Agents and commands that are files of their own.
    fn merge_markdown_folders(
        &mut self,
        project: &ConfigRoot<'_>,
        folder: &Path,
    ) -> Result<(), ApiError> {
        for (name, kind, body) in [
            ("command", "command", "template"),
            ("commands", "command", "template"),
            ("agent", "agent", "prompt"),
            ("agents", "agent", "prompt"),
        ] {
            for (name, path) in project.list_markdown(&folder.join(name))? {
                let Some(text) = project.read_text(&path)? else { continue };
                let (mut fields, rest) = front_matter::split_front_matter(&text)
                    .map_err(|message| invalid_config(&project.at.join(&path), &message))?;
                fields.insert(body.to_owned(), Value::from(rest));
                let mut named = Map::new();
                named.insert(name, Value::Object(fields));
                let mut over = Map::new();
                over.insert(kind.to_owned(), Value::Object(named));
                merge_tables(&mut self.merged, over);
            }
        }
        Ok(())
    }

    /// The entries of a table such as `agent`.
    pub(super) fn table(&self, key: &str) -> Result<Map<String, Value>, ApiError> {
        match self.merged.get(key) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(_) => Err(invalid_config(Path::new(key), "it must be a table")),
        }
    }

    /// The whole of it for a client: secrets are hidden, and nothing is shared or updated (yet).
    pub(crate) fn to_json(&self, user: &str) -> ShownConfig {
        let mut map = self.merged.clone();
        for key in ["command", "agent", "mode"] {
            map.entry(key).or_insert_with(|| json!({}));
        }
        map.entry("plugin").or_insert_with(|| json!([]));
        map.entry("username").or_insert_with(|| Value::from(user));
        map.insert("share".to_owned(), Value::from("disabled"));
        map.insert("autoupdate".to_owned(), Value::from(false));
        ShownConfig::new(Value::Object(map))
    }

    /// The same for the user alone, as it is in the files.
    pub(crate) fn to_json_without_defaults(&self) -> ShownConfig {
        ShownConfig::new(Value::Object(self.merged.clone()))
    }

    /// The model that is used unless another is named, as `provider/model`.
    pub(crate) fn default_model(&self) -> Option<&str> {
        self.merged.get("model")?.as_str()
    }
}

/// Lays one table over another: tables are merged, lists of instructions grow, the rest is replaced.
fn merge_tables(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_tables(below, above),
            (Some(Value::Array(below)), Value::Array(above))
                if key == "instructions" || key == "plugin" =>
            {
                below.extend(above);
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}
