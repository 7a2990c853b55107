//! A runner in the process of the server: it answers the prompts that no external runner takes.
//!
//! The server knows no models. The program that starts it hands in a runner, and each side knows the other
//! only by what is here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use serde::Serialize;
use turnstone_core::id::SessionId;
use turnstone_engine::EngineError;
use turnstone_store::Context;

use crate::app::{AppInner, AppState};
use crate::route::publish_diff;
use crate::runner_registry::has_external_runner;

/// Runs turns in the process of the server.
pub trait PromptRunner: Send + Sync {
    /// Looks for work in a session: prompts in its inbox, or a turn that waited and has its answers. Returns
    /// at once.
    fn wake(&self, session: &SessionId);

    /// Looks for work in every session that no external runner takes prompts from. Returns once all are found.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    fn wake_all(&self) -> Result<(), EngineError>;

    /// True while a turn of the session runs here: it notices by itself that it is to be aborted.
    fn is_running(&self, session: &SessionId) -> bool;

    /// Returns the skills that the agent can load in `directory`.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    fn list_skills(&self, directory: &Path) -> Result<Vec<SkillSummary>, String>;

    /// Returns the MCP servers of `directory` by name. Connects them, and waits a few seconds for those that start.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    fn list_mcp_servers(
        &self,
        directory: &Path,
    ) -> Result<BTreeMap<String, McpServerStatus>, String>;

    /// Ends what runs, as interrupted. Returns when all have ended or `grace` has passed.
    fn stop(&self, grace: Duration);
}

/// Whether an MCP server can be used, as clients show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpServerStatus {
    /// `connected`, `disabled`, `failed` or `needs_auth`.
    pub status: &'static str,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A skill, as clients list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillSummary {
    /// Its name.
    pub name: String,
    /// When to load it.
    pub description: String,
    /// Its file.
    pub location: String,
    /// Its instructions.
    pub content: String,
}

/// The server, as a runner in its process sees it. Does not keep the server alive.
#[derive(Clone)]
pub struct PromptRunnerHost {
    app: Weak<AppInner>,
}

impl PromptRunnerHost {
    pub(crate) fn new(app: &AppState) -> Self {
        Self { app: app.downgrade() }
    }

    /// True if an external runner takes the prompts of sessions in `directory`.
    #[must_use]
    pub fn has_external_runner(&self, directory: &Path) -> bool {
        AppState::upgrade(&self.app).is_some_and(|app| has_external_runner(&app, directory))
    }

    /// Wakes the requests that wait for the end of a turn, and publishes what the turn has changed.
    pub fn report_turn_end(&self, session: &SessionId) {
        let Some(app) = AppState::upgrade(&self.app) else { return };
        app.runners().notify_waiters();
        publish_diff(&app, &Context::system(app.now()), session);
    }
}
