//! Everything that configuration depends on outside of its files: the program reads it and passes it down.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::secret::Secret;

/// Where an administrator's configuration is.
const MANAGED_FOLDER: &str = "/etc/opencode";

/// The folders and environment variables that configuration is read with.
///
/// A folder that is not absolute counts as unknown: relative to a project, its files would pass for the user's.
#[derive(Clone, Default)]
pub struct ConfigEnvironment {
    home: Option<PathBuf>,
    config_folder: Option<PathBuf>,
    data: PathBuf,
    opencode_data: Option<PathBuf>,
    managed_folder: Option<PathBuf>,
    variables: BTreeMap<String, Secret>,
}

impl ConfigEnvironment {
    /// Returns an environment with the home directory, the user's configuration folder (of all programs), and
    /// Turnstone's data directory.
    #[must_use]
    pub fn new(home: &Path, config_folder: &Path, data: &Path) -> Self {
        let absolute = |path: &Path| path.is_absolute().then(|| path.to_owned());
        Self {
            home: absolute(home),
            config_folder: absolute(config_folder),
            data: data.to_owned(),
            opencode_data: absolute(home).map(|home| home.join(".local/share/opencode")),
            managed_folder: Some(PathBuf::from(MANAGED_FOLDER)),
            variables: BTreeMap::new(),
        }
    }

    /// Replaces the environment variables; those that are not text are omitted.
    #[must_use]
    pub fn with_variables(mut self, variables: &[(OsString, OsString)]) -> Self {
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), Secret::new(value.to_str()?.to_owned())))
        };
        self.variables = variables.iter().filter_map(text).collect();
        if let Some(folder) = self.variable("XDG_DATA_HOME").map(PathBuf::from) {
            self.opencode_data = folder.is_absolute().then(|| folder.join("opencode"));
        }
        self
    }

    /// Replaces the folder of an administrator's configuration.
    #[must_use]
    pub fn with_managed_folder(self, managed_folder: Option<PathBuf>) -> Self {
        Self { managed_folder, ..self }
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns what `~` stands for in permission rules.
    pub(crate) fn home_text(&self) -> String {
        self.home().map_or_else(|| "~".to_owned(), |home| home.display().to_string())
    }

    /// Returns the user's configuration folder.
    #[must_use]
    pub fn config_folder(&self) -> Option<&Path> {
        self.config_folder.as_deref()
    }

    /// Returns Turnstone's data directory: keys, and the files that are trusted.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns OpenCode's data folder: its `auth.json` is read and never written.
    pub(crate) fn opencode_data(&self) -> Option<&Path> {
        self.opencode_data.as_deref()
    }

    /// Returns the folder of an administrator's configuration, stronger than all others.
    pub(crate) fn managed_folder(&self) -> Option<&Path> {
        self.managed_folder.as_deref()
    }

    /// Returns a variable; nothing if it is not set or empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(Secret::expose).filter(|value| !value.is_empty())
    }

    /// True if a variable is set to a value that means yes.
    pub(crate) fn has_flag(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|value| matches!(value, "1" | "true" | "TRUE" | "True"))
    }
}

impl fmt::Debug for ConfigEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigEnvironment")
            .field("home", &self.home)
            .field("config_folder", &self.config_folder)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
