//! The configuration that is in force in one directory.

use std::path::{Path, PathBuf};

use turnstone_config::{ConfigSources, Configuration};
use turnstone_core::call_context::{Actor, Context};

use super::run_settings::RunEnvironment;
use super::settings_failure::{broken_configuration, missing_directory};
use crate::run::SettingsFailure;

/// The configuration that is in force in a directory, and where the directory is.
#[derive(Debug)]
pub struct DirectoryConfiguration {
    /// The configuration.
    pub configuration: Configuration,
    /// The directory, without links.
    pub directory: PathBuf,
    /// The root of its project.
    pub root: PathBuf,
}

impl DirectoryConfiguration {
    /// Reads the configuration of a directory.
    ///
    /// # Errors
    ///
    /// The directory does not exist, or the configuration has a mistake; the message says what to do.
    pub fn load(environment: &RunEnvironment, directory: &Path) -> Result<Self, SettingsFailure> {
        let real = fs_err::canonicalize(directory);
        let real = real.map_err(|error| missing_directory(directory, &error.kind().to_string()))?;
        let ctx = Context::new(Actor::system(), (environment.clock)());
        let found = environment.engine.projects().find_or_derive(&ctx, &real);
        let root = found.map_err(|error| missing_directory(directory, &error.to_string()))?.root;
        let sources = ConfigSources {
            environment: &environment.configuration,
            project: Some((&root, &real)),
        };
        let configuration =
            Configuration::load(&sources).map_err(|error| broken_configuration(&error))?;
        Ok(Self { configuration, directory: real, root })
    }

    /// Returns the directories from the root of the project down to this one.
    pub(super) fn levels(&self) -> Vec<PathBuf> {
        levels_between(&self.root, &self.directory)
    }
}

/// Returns the directories from `root` down to `directory`; `directory` alone if it is not below `root`.
pub(super) fn levels_between(root: &Path, directory: &Path) -> Vec<PathBuf> {
    let Ok(inner) = directory.strip_prefix(root) else { return vec![directory.to_owned()] };
    let mut levels = vec![root.to_owned()];
    let mut level = root.to_owned();
    for name in inner.components() {
        level.push(name);
        levels.push(level.clone());
    }
    levels
}
