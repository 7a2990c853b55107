//! The engine: opens the database and owns the services over it.

use std::sync::Arc;

use turnstone_core::time::EpochMillis;
use turnstone_store::{Context, DataLayout, Options, Store};

use crate::captures::Captures;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::{History, HistoryInputs};
use crate::id_generator::IdGenerator;
use crate::maintenance::Maintenance;
use crate::maintenance::recover::RecoveryReport;
use crate::permissions::Permissions;
use crate::projects::Projects;
use crate::settings::EngineSettings;
use crate::tool_calls::ToolCalls;
use crate::turns::Turns;
use crate::{history, maintenance, permissions, projects, turns};

/// The services of the application over one data directory.
pub struct Engine {
    store: Arc<Store>,
    snapshots: Arc<SnapshotHandles>,
    turns: Turns,
    tool_calls: ToolCalls,
    history: History,
    permissions: Permissions,
    projects: Projects,
    maintenance: Maintenance,
}

impl Engine {
    /// Opens the database, which ends the turns of dead processes.
    ///
    /// What those did to files, and what else they left half done, is found out and finished by
    /// [`Maintenance::recover_all`]: the caller runs it next, and a process that runs for long calls
    /// [`Maintenance::recover_and_maintain`] once a minute (R45).
    ///
    /// # Errors
    ///
    /// The database cannot be opened.
    pub fn open(settings: EngineSettings, now: EpochMillis) -> Result<Self> {
        let options = Options::new(DataLayout::new(&settings.data), now);
        Self::open_with(settings, &options)
    }

    /// Opens the database and runs recovery, once. The engine can be used even if recovery failed: then the
    /// error says why, and the next recovery tries again.
    ///
    /// # Errors
    ///
    /// The database cannot be opened.
    pub fn open_recovered(
        settings: EngineSettings,
        ctx: &Context,
    ) -> Result<(Self, Result<RecoveryReport>)> {
        let mut options = Options::new(DataLayout::new(&settings.data), ctx.now);
        options.recover_turns = false;
        let engine = Self::open_with(settings, &options)?;
        let recovered = engine.maintenance.recover_all(ctx);
        Ok((engine, recovered))
    }

    fn open_with(settings: EngineSettings, options: &Options) -> Result<Self> {
        let EngineSettings { data, runtime, snapshot_options, git, rules, .. } = settings;
        let EngineSettings { watch, over_budget_policy, retention_millis, .. } = settings;
        let store = Arc::new(Store::open(options)?);
        let ids = Arc::new(IdGenerator::default());
        let snapshots = SnapshotHandles::new(data.clone(), runtime, snapshot_options);
        let policy = (over_budget_policy, retention_millis);
        let captures = Captures::new(&store, &ids, snapshots, watch, policy);
        let permissions = permissions::assemble(&store, &ids, rules);
        let projects = projects::assemble(&store, &ids, &captures, &permissions, git, &data);
        let tool_calls = ToolCalls::new(&store, &ids, &captures, &data);
        let history = history::assemble(&HistoryInputs {
            store: &store,
            ids: &ids,
            captures: &captures,
            permissions: &permissions,
            projects: &projects,
            data: &data,
        });
        let turns = turns::assemble(&store, &ids, &captures, &tool_calls, &history);
        let maintenance =
            maintenance::assemble(&store, &ids, &captures, &permissions, &history, &data);
        let snapshots = captures.snapshots;
        Ok(Self {
            store,
            snapshots,
            turns,
            tool_calls,
            history,
            permissions,
            projects,
            maintenance,
        })
    }

    /// The database: sessions, messages and the log.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The open snapshot stores.
    #[must_use]
    pub fn snapshots(&self) -> &SnapshotHandles {
        &self.snapshots
    }

    /// Turns: prompts, the inbox, commands, model calls, compaction.
    #[must_use]
    pub const fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Tool calls, the change sets they leave, and the files they read and write.
    #[must_use]
    pub const fn tool_calls(&self) -> &ToolCalls {
        &self.tool_calls
    }

    /// Undo, redo, revert, jump, checkpoints, diffs and forks.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Permission rules, gates, requests and answers.
    #[must_use]
    pub const fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Projects, worktrees and the sessions in them.
    #[must_use]
    pub const fn projects(&self) -> &Projects {
        &self.projects
    }

    /// Recovery, garbage collection, baselines and forgetting.
    #[must_use]
    pub const fn maintenance(&self) -> &Maintenance {
        &self.maintenance
    }
}
