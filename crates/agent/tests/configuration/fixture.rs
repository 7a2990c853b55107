//! A home, a data directory and a project on disk, and the settings that they give.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_agent::configuration::{ConfiguredRunSettings, RunEnvironment};
use turnstone_agent::run::{RunModel, RunSettings};
use turnstone_config::{AuthFile, ConfigEnvironment, Secret};
use turnstone_core::model::{ExtraFields, MessageFailure, ModelRef};
use turnstone_core::time::EpochMillis;
use turnstone_engine::{Engine, EngineSettings, SupervisorProgram};

fn now() -> EpochMillis {
    EpochMillis(1_767_225_600_000)
}

/// Everything that settings are read from; removed when it is dropped.
pub(crate) struct SettingsFixture {
    dir: tempfile::TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl SettingsFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["home/.config/opencode", "data", "project/.git", "project/sub"] {
            fs_err::create_dir_all(dir.path().join(name)).expect("made");
        }
        fs_err::write(dir.path().join("project/.git/HEAD"), "ref: refs/heads/main\n").expect("git");
        for name in ["objects", "refs"] {
            fs_err::create_dir(dir.path().join("project/.git").join(name)).expect("git");
        }
        Self { dir, variables: Vec::new() }
    }

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

    pub(crate) fn store_key(&self, provider: &str, key: &str) {
        let key = Secret::new(key.to_owned());
        AuthFile::store(&self.path("data"), provider, &key).expect("stored");
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.path("project/sub")
    }

    pub(crate) fn settings(&self) -> ConfiguredRunSettings {
        let (home, data) = (self.path("home"), self.path("data"));
        let engine = Engine::open(EngineSettings::new(&data), now()).expect("opens");
        let configuration = ConfigEnvironment::new(&home, &home.join(".config"), &data)
            .with_variables(&self.variables)
            .with_managed_folder(None);
        let environment = RunEnvironment {
            engine: Arc::new(engine),
            configuration,
            variables: self.variables.clone(),
            supervisor: SupervisorProgram { program: PathBuf::new(), args: Vec::new() },
            is_traced: false,
            clock: now,
        };
        ConfiguredRunSettings::new(environment).expect("settings")
    }

    /// The model of this name as the agent `build` asks it.
    pub(crate) fn model(&self, name: &str, variant: Option<&str>) -> Result<RunModel, String> {
        let settings = self.settings();
        let directory = self.directory();
        let agent = settings.agent(&directory, "build").map_err(|it| words_of(&it))?;
        let model = model_ref(name, variant);
        settings.model(&directory, &model, &agent).map_err(|it| words_of(&it))
    }

    pub(crate) fn model_failure(&self, name: &str) -> String {
        match self.model(name, None) {
            Ok(model) => panic!("{name} can be used as {}", model.wire_name),
            Err(words) => words,
        }
    }
}

pub(crate) fn model_ref(name: &str, variant: Option<&str>) -> ModelRef {
    let (provider, model) = name.split_once('/').expect("provider/model");
    ModelRef {
        provider: provider.to_owned(),
        model: model.to_owned(),
        variant: variant.map(str::to_owned),
        extra: ExtraFields::new(),
    }
}

/// The name and the message of a failure.
pub(crate) fn words_of(failure: &MessageFailure) -> String {
    let name = serde_json::to_value(&failure.name).expect("json");
    let words = failure.data["message"].as_str().expect("a message");
    format!("{}: {words}", name.as_str().expect("a name"))
}

pub(crate) fn names_of_tools(settings: &ConfiguredRunSettings, directory: &Path) -> Vec<String> {
    settings.tools(directory).iter().map(|tool| tool.schema().name).collect()
}
