//! The agent of the server: answers prompts in the server's process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnstone_agent::configuration::{ConfiguredRunSettings, RunEnvironment};
use turnstone_agent::run::{AgentRunner, AgentRunnerOptions, RunObserver};
use turnstone_core::id::SessionId;
use turnstone_engine::{Engine, EngineError, SupervisorProgram};
use turnstone_server::{PASSWORD_VARIABLES, PromptRunner, PromptRunnerHost, SkillSummary};

use crate::app::CliApp;
use crate::clock;
use crate::configuration::config_environment;
use crate::error::CliError;

/// The variables of the server without its password, which no command of a model may see.
fn variables_without_password(app: &CliApp) -> Vec<(OsString, OsString)> {
    let is_password = |name: &OsString| PASSWORD_VARIABLES.iter().any(|it| name == it);
    let all = app.environment_variables().iter();
    all.filter(|(name, _)| !is_password(name)).cloned().collect()
}

/// Everything the agent needs but the server.
pub(super) struct AgentSetup {
    engine: Arc<Engine>,
    settings: Arc<ConfiguredRunSettings>,
    data: PathBuf,
}

impl AgentSetup {
    /// Prepares the agent. No configuration is read before the first prompt, so that a mistake in it is the answer
    /// to a prompt and does not keep the server from starting.
    ///
    /// # Errors
    ///
    /// A proxy variable is invalid, or the path of this program is unknown.
    pub(super) fn new(app: &CliApp, engine: &Arc<Engine>) -> Result<Self, CliError> {
        let environment = RunEnvironment {
            engine: engine.clone(),
            configuration: config_environment(app),
            variables: variables_without_password(app),
            supervisor: SupervisorProgram {
                program: app.executable_path()?.to_owned(),
                args: vec![OsString::from("supervise")],
            },
            is_traced: app.read_config()?.exec.trace,
            clock: clock::now,
        };
        let settings =
            ConfiguredRunSettings::new(environment).map_err(|error| CliError::Refused {
                what: format!("cannot make requests to models: {error}"),
                hint: Some("check the proxy variables, such as HTTPS_PROXY".to_owned()),
            })?;
        let data = app.layout().root().to_owned();
        Ok(Self { engine: engine.clone(), settings: Arc::new(settings), data })
    }

    /// Returns the agent as the server sees it.
    pub(super) fn into_runner(self, host: PromptRunnerHost) -> Arc<dyn PromptRunner> {
        let Self { engine, settings, data } = self;
        let observer = Arc::new(ServerObserver { host });
        let options = AgentRunnerOptions {
            engine,
            settings: settings.clone(),
            observer,
            data,
            clock: clock::now,
        };
        Arc::new(ServedAgent { runner: AgentRunner::new(options), settings })
    }
}

/// Tells the server what the agent does.
struct ServerObserver {
    host: PromptRunnerHost,
}

impl RunObserver for ServerObserver {
    fn is_taken(&self, directory: &Path) -> bool {
        self.host.has_external_runner(directory)
    }

    fn turn_ended(&self, session: &SessionId) {
        self.host.report_turn_end(session);
    }
}

/// The agent, as the server sees it.
struct ServedAgent {
    runner: AgentRunner,
    settings: Arc<ConfiguredRunSettings>,
}

impl PromptRunner for ServedAgent {
    fn wake(&self, session: &SessionId) {
        self.runner.wake(session);
    }

    fn wake_all(&self) -> Result<(), EngineError> {
        self.runner.wake_all()
    }

    fn is_running(&self, session: &SessionId) -> bool {
        self.runner.is_running(session)
    }

    fn list_skills(&self, directory: &Path) -> Result<Vec<SkillSummary>, String> {
        let skills = self.settings.list_skills(directory);
        let skills = skills
            .map_err(|failure| failure.data["message"].as_str().unwrap_or_default().to_owned())?;
        let summary = |skill: turnstone_agent::tool::SkillInfo| {
            let content = skill.read_instructions().ok().flatten()?;
            let location = skill.file.to_string_lossy().into_owned();
            let (name, description) = (skill.name, skill.description);
            Some(SkillSummary { name, description, location, content })
        };
        Ok(skills.into_iter().filter_map(summary).collect())
    }

    fn stop(&self, grace: Duration) {
        self.runner.stop(grace);
    }
}
