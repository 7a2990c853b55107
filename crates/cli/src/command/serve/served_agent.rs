//! The agent of the server: answers prompts in the server's process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use turnstone_agent::configuration::ConfiguredRunSettings;
use turnstone_agent::mcp::{McpServerReport, McpState};
use turnstone_agent::run::{AgentRunner, AgentRunnerOptions, RunObserver};
use turnstone_agent::tool::{SkillInfo, remove_old_outputs};
use turnstone_core::id::SessionId;
use turnstone_engine::{Engine, EngineError};
use turnstone_server::{McpServerStatus, PromptRunner, PromptRunnerHost, SkillSummary};

use crate::agent_settings::agent_settings;
use crate::app::CliApp;
use crate::clock;
use crate::error::CliError;

/// How long a client that asks for the MCP servers waits for those that start.
const MCP_WAIT: Duration = Duration::from_secs(5);
/// How often old outputs of tools are removed.
const SWEEP_INTERVAL_MILLIS: i64 = 3_600_000;
/// How long the whole output of a tool is kept.
const OUTPUT_AGE_MILLIS: i64 = 7 * 24 * 3_600_000;

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
        let settings = agent_settings(app, engine)?;
        let data = app.layout().root().to_owned();
        Ok(Self { engine: engine.clone(), settings: Arc::new(settings), data })
    }

    /// Returns the agent as the server sees it.
    pub(super) fn into_runner(self, host: PromptRunnerHost) -> Arc<dyn PromptRunner> {
        let Self { engine, settings, data } = self;
        let observer = Arc::new(ServerObserver { host });
        let swept_at = AtomicI64::new(0);
        let folder = data.clone();
        let options = AgentRunnerOptions {
            engine,
            settings: settings.clone(),
            observer,
            data,
            clock: clock::now,
        };
        Arc::new(ServedAgent {
            runner: AgentRunner::new(options),
            settings,
            data: folder,
            swept_at,
        })
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
    data: PathBuf,
    /// When old outputs of tools were removed last.
    swept_at: AtomicI64,
}

impl ServedAgent {
    /// Removes old files with long outputs of tools, once an hour.
    fn sweep_outputs(&self) {
        let now = clock::now();
        if now.0 - self.swept_at.load(Ordering::Relaxed) < SWEEP_INTERVAL_MILLIS {
            return;
        }
        self.swept_at.store(now.0, Ordering::Relaxed);
        if let Err(error) = remove_old_outputs(&self.data, now, OUTPUT_AGE_MILLIS) {
            tracing::warn!("old outputs of tools could not be removed: {error}");
        }
    }
}

impl PromptRunner for ServedAgent {
    fn wake(&self, session: &SessionId) {
        self.runner.wake(session);
    }

    fn wake_all(&self) -> Result<(), EngineError> {
        self.sweep_outputs();
        self.runner.wake_all()
    }

    fn is_running(&self, session: &SessionId) -> bool {
        self.runner.is_running(session)
    }

    fn list_skills(&self, directory: &Path) -> Result<Vec<SkillSummary>, String> {
        let skills = self.settings.list_skills(directory);
        let skills = skills
            .map_err(|failure| failure.data["message"].as_str().unwrap_or_default().to_owned())?;
        let summary = |skill: SkillInfo| {
            let content = skill.read_instructions().ok().flatten()?;
            let location = skill.file.to_string_lossy().into_owned();
            let (name, description) = (skill.name, skill.description);
            Some(SkillSummary { name, description, location, content })
        };
        Ok(skills.into_iter().filter_map(summary).collect())
    }

    fn list_mcp_servers(
        &self,
        directory: &Path,
    ) -> Result<BTreeMap<String, McpServerStatus>, String> {
        let reports = self.settings.report_mcp_servers(directory, MCP_WAIT)?;
        Ok(reports.into_iter().map(mcp_status).collect())
    }

    fn stop(&self, grace: Duration) {
        self.runner.stop(grace);
        self.settings.close_mcp_servers();
    }
}

fn mcp_status(report: McpServerReport) -> (String, McpServerStatus) {
    let status = match report.state {
        McpState::Connected => "connected",
        McpState::Disabled => "disabled",
        McpState::Failed => "failed",
        McpState::NeedsAuth => "needs_auth",
    };
    (report.name, McpServerStatus { status, error: report.error })
}
