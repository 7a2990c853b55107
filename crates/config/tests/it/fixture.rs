//! A home, a data directory and a project on disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnstone_config::{
    AuthFile, ConfigEnvironment, ConfigError, ConfigSources, Configuration, Secret, TrustedFiles,
};

/// Everything that a configuration is read from; removed when it is dropped.
pub(crate) struct ConfigFixture {
    dir: tempfile::TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl ConfigFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["home/.config/opencode", "data", "project/sub"] {
            fs_err::create_dir_all(dir.path().join(name)).expect("made");
        }
        Self { dir, variables: Vec::new() }
    }

    /// The same with an environment variable.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        fs_err::canonicalize(self.dir.path()).expect("real").join(name)
    }

    /// Writes a file; `name` begins with `home`, `data` or `project`.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs_err::write(path, text).expect("written");
    }

    /// Writes the user's own configuration.
    pub(crate) fn write_user(&self, text: &str) {
        self.write("home/.config/opencode/opencode.json", text);
    }

    /// Writes the project's configuration.
    pub(crate) fn write_project(&self, text: &str) {
        self.write("project/opencode.json", text);
    }

    /// Stores a key.
    pub(crate) fn store_key(&self, provider: &str, key: &str) {
        AuthFile::store(&self.path("data"), provider, &Secret::new(key.to_owned()))
            .expect("stored");
    }

    pub(crate) fn environment(&self) -> ConfigEnvironment {
        let (home, config) = (self.path("home"), self.path("home/.config"));
        ConfigEnvironment::new(&home, &config, &self.path("data"))
            .with_variables(&self.variables)
            .with_managed_folder(Some(self.path("managed")))
    }

    /// Reads the configuration of the project's subfolder `sub`.
    pub(crate) fn try_load(&self) -> Result<Configuration, ConfigError> {
        let (root, directory) = (self.path("project"), self.path("project/sub"));
        let environment = self.environment();
        let project: Option<(&Path, &Path)> = Some((&root, &directory));
        Configuration::load(&ConfigSources { environment: &environment, project })
    }

    pub(crate) fn load(&self) -> Configuration {
        self.try_load().expect("a good configuration")
    }

    /// Trusts the project as it is now.
    pub(crate) fn trust(&self) {
        let mut trusted = TrustedFiles::read(&self.path("data")).expect("read");
        self.load().trust_project_files(&mut trusted);
        trusted.write(&self.path("data")).expect("written");
    }

    /// The keys of the project that are not in force.
    pub(crate) fn restricted(&self) -> Vec<String> {
        let files = self.load().files();
        files.into_iter().flat_map(|file| file.restricted).map(|(key, _)| key.dotted()).collect()
    }
}

/// The value of a nested key as it is shown.
pub(crate) fn shown_value(config: &Configuration, key: &str) -> Value {
    let mut value = Value::Object(config.shown_settings().clone());
    for part in key.split('.') {
        value = value.get(part).cloned().unwrap_or(Value::Null);
    }
    value
}
