//! How an engine is opened.

use std::path::{Path, PathBuf};

use turnstone_process::GitEnvironment;
use turnstone_snapshot::SnapshotOptions;

use crate::permissions::RuleSettings;

/// The default retention of captures that no session needs (R41).
const DEFAULT_RETENTION_MILLIS: i64 = 7 * 24 * 3_600_000;

/// What happens to a call when its captures do not fit the budget (R13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverBudgetPolicy {
    /// It is refused.
    #[default]
    RefuseCall,
    /// It runs, and cannot be undone.
    RunUncovered,
}

/// What a long-running process watches at most, and for how long (R42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Roots at a time; zero: none is watched.
    pub max_roots: usize,
    /// About how many bytes of memory they take together; the root in use may take more.
    pub max_memory: u64,
    /// A root that was not used for so many milliseconds is released.
    pub idle_millis: i64,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { max_roots: 16, max_memory: 256 << 20, idle_millis: 30 * 60_000 }
    }
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The data directory.
    pub data: PathBuf,
    /// Where sockets go; none: a folder of the data directory.
    pub runtime: Option<PathBuf>,
    /// How worktrees are captured.
    pub snapshot_options: SnapshotOptions,
    /// The environment of `git` commands.
    pub git: GitEnvironment,
    /// The permission rules that are not stored in the database.
    pub rules: RuleSettings,
    /// What a long-running process watches at most.
    pub watch: WatchLimits,
    /// What is given up first when space is short: undo, or the call.
    pub over_budget_policy: OverBudgetPolicy,
    /// How long captures that no session needs are kept, in milliseconds (R41).
    pub retention_millis: i64,
}

impl EngineSettings {
    /// The usual settings for a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            runtime: None,
            snapshot_options: SnapshotOptions::default(),
            git: GitEnvironment::default(),
            rules: RuleSettings { trust_record: Some(data.to_owned()), ..RuleSettings::default() },
            watch: WatchLimits::default(),
            over_budget_policy: OverBudgetPolicy::default(),
            retention_millis: DEFAULT_RETENTION_MILLIS,
        }
    }
}
