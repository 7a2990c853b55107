//! What every command needs: data directory, acting user, clock, configuration.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use turnstone_core::id::SessionId;
use turnstone_core::permission::{CallerRole, parse_rule_config};
use turnstone_core::time::EpochMillis;
use turnstone_engine::{
    Engine, EngineError, EngineSettings, OverBudgetPolicy, RecoveryReport, RuleSettings,
};
use turnstone_process::{GitEnvironment, is_below_supervisor};
use turnstone_snapshot::MaintenanceInterval;
use turnstone_store::{Actor, Context, DataLayout, Options, Store};

use crate::clock;
use crate::command::snapshot;
use crate::config_file::{ConfigFile, UndoSetting};
use crate::environment::{GlobalArgs, StartupEnvironment};
use crate::error::CliError;
use crate::user_git_config::GitConfigLocation;

/// The command that watches over commands of agents.
pub(crate) const SUPERVISE: &str = "supervise";

/// The environment of one invocation.
pub(crate) struct CliApp {
    layout: DataLayout,
    directory: Option<PathBuf>,
    runtime_dir: Option<PathBuf>,
    config_path: Option<PathBuf>,
    git: GitConfigLocation,
    actor: Actor,
    invocation: ProgramInvocation,
    /// True once a command has opened the database.
    has_opened_database: AtomicBool,
    /// True if a deletion was not finished when the database was opened, or that could not be read.
    may_have_pending_deletions: AtomicBool,
}

/// How the program was started.
struct ProgramInvocation {
    variables: Vec<(OsString, OsString)>,
    program: Option<PathBuf>,
    args: Vec<OsString>,
    session: Option<String>,
    /// True if a command of an agent runs this program, whatever its variables say.
    is_below_agent: bool,
}

impl CliApp {
    /// Resolves the data directory and the acting user.
    ///
    /// # Errors
    ///
    /// [`CliError::NoDataDirectory`] if neither flag, environment nor home directory names one.
    pub(crate) fn new(
        environment: StartupEnvironment,
        globals: &GlobalArgs,
    ) -> Result<Self, CliError> {
        let given = globals.data.clone().filter(|path| !path.as_os_str().is_empty());
        let root = given.or(environment.data).ok_or(CliError::NoDataDirectory)?;
        let root = match &environment.directory {
            Some(directory) => directory.join(root),
            None => root,
        };
        let named = environment.user.and_then(|name| Actor::new(name).ok());
        Ok(Self {
            layout: DataLayout::new(root),
            directory: environment.directory,
            runtime_dir: environment.runtime_dir,
            config_path: environment.config_path,
            git: environment.git,
            actor: named.unwrap_or_else(Actor::system),
            invocation: ProgramInvocation {
                is_below_agent: environment.enclosing_session.is_some()
                    || environment
                        .executable_path
                        .as_deref()
                        .is_some_and(|program| is_below_supervisor(program, &[SUPERVISE])),
                variables: environment.variables,
                program: environment.executable_path,
                args: environment.args,
                session: environment.enclosing_session,
            },
            has_opened_database: AtomicBool::new(false),
            may_have_pending_deletions: AtomicBool::new(false),
        })
    }

    /// True once a command has opened the database.
    pub(crate) fn has_opened_database(&self) -> bool {
        self.has_opened_database.load(Ordering::Relaxed)
    }

    /// True if a deletion was not finished when the command opened the database, or that could not be read.
    pub(crate) fn may_have_pending_deletions(&self) -> bool {
        self.may_have_pending_deletions.load(Ordering::Relaxed)
    }

    /// Looks for unfinished deletions while the database is open; costs one query of an almost always empty table.
    fn note_pending_deletions(&self, store: &Store) {
        let pending = store.maintenance().pending_deletions(&Context::system(self.now()));
        if !pending.is_ok_and(|pending| pending.is_empty()) {
            self.may_have_pending_deletions.store(true, Ordering::Relaxed);
        }
    }

    /// Layout of the data directory.
    pub(crate) const fn layout(&self) -> &DataLayout {
        &self.layout
    }

    /// The current directory.
    ///
    /// # Errors
    ///
    /// [`CliError::NoDirectory`] if it no longer exists.
    pub(crate) fn directory(&self) -> Result<&Path, CliError> {
        self.directory.as_deref().ok_or(CliError::NoDirectory)
    }

    /// Directory for sockets, if `XDG_RUNTIME_DIR` is set.
    pub(crate) fn runtime_directory(&self) -> Option<&Path> {
        self.runtime_dir.as_deref()
    }

    /// Reads the configuration file.
    ///
    /// # Errors
    ///
    /// As [`ConfigFile::read`].
    pub(crate) fn read_config(&self) -> Result<ConfigFile, CliError> {
        ConfigFile::read(self.config_path.as_deref())
    }

    /// Location of the user's git configuration.
    pub(crate) const fn user_git_config(&self) -> &GitConfigLocation {
        &self.git
    }

    /// The current time.
    pub(crate) fn now(&self) -> EpochMillis {
        clock::now()
    }

    /// Actor, role and time for a request to the engine.
    pub(crate) fn context(&self) -> Context {
        let mut ctx = Context::new(self.actor.clone(), self.now()).with_role(self.role());
        ctx.client = Some(if self.role() == CallerRole::Tool { "tool" } else { "cli" }.to_owned());
        ctx
    }

    /// The caller's role: a command that an agent runs acts as a tool (R37).
    pub(crate) fn role(&self) -> CallerRole {
        if self.invocation.is_below_agent { CallerRole::Tool } else { CallerRole::Person }
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// [`CliError::Open`].
    pub(crate) fn open_store(&self) -> Result<Store, CliError> {
        let mut options = Options::new(self.layout.clone(), self.now());
        options.safety_tick = false;
        let store = Store::open(&options)?;
        self.has_opened_database.store(true, Ordering::Relaxed);
        if let Some(reason) = store.read_only_reason() {
            let file = self.layout.database();
            tracing::warn!("{} is open read-only: {reason}", file.display());
        }
        for turn in &store.turn_recovery().interrupted {
            tracing::info!("turn {turn} was interrupted: its process has ended");
        }
        self.note_pending_deletions(&store);
        Ok(store)
    }

    /// The groups that belong to deleted sessions; empty if the database cannot be read.
    pub(crate) fn groups_of_deleted_sessions(&self, groups: &BTreeSet<String>) -> BTreeSet<String> {
        if !self.layout.database().exists() {
            return BTreeSet::new();
        }
        let Ok(store) = self.open_store() else { return BTreeSet::new() };
        let is_gone = |group: &&String| {
            let id = group.parse::<SessionId>();
            let found = id.map(|id| store.read(&self.context(), |r| r.sessions().find(&id)));
            matches!(found, Ok(Ok(None)))
        };
        groups.iter().filter(is_gone).cloned().collect()
    }

    /// Guard groups that operations pin (R14); `None` if the database cannot be read.
    pub(crate) fn pinned_guards(&self) -> Option<BTreeSet<String>> {
        if !self.layout.database().exists() {
            return Some(BTreeSet::new());
        }
        let groups = self
            .open_store()
            .ok()
            .and_then(|store| turnstone_engine::list_guard_groups(&store, &self.context()).ok())?;
        Some(groups.into_iter().map(String::from).collect())
    }

    /// Opens the engine without running recovery.
    ///
    /// # Errors
    ///
    /// [`CliError::Open`], or the configuration cannot be read.
    pub(crate) fn open_engine(&self) -> Result<Engine, CliError> {
        let engine = Engine::open(self.engine_settings()?, self.now())?;
        self.note_pending_deletions(engine.store());
        Ok(engine)
    }

    /// Opens the engine and runs recovery once; its result is for the caller to report.
    ///
    /// # Errors
    ///
    /// As [`Self::open_engine`].
    pub(crate) fn open_recovered_engine(
        &self,
        ctx: &Context,
    ) -> Result<(Engine, Result<RecoveryReport, EngineError>), CliError> {
        let opened = Engine::open_recovered(self.engine_settings()?, ctx)?;
        self.note_pending_deletions(opened.0.store());
        Ok(opened)
    }

    fn engine_settings(&self) -> Result<EngineSettings, CliError> {
        self.has_opened_database.store(true, Ordering::Relaxed);
        let chosen = self.read_config()?;
        Ok(EngineSettings {
            over_budget_policy: match chosen.undo {
                UndoSetting::Required => OverBudgetPolicy::RefuseCall,
                UndoSetting::BestEffort => OverBudgetPolicy::RunUncovered,
            },
            watch: chosen.watch.limits(),
            retention_millis: chosen.snapshot.retention_millis(),
            data: self.layout.root().to_owned(),
            runtime: self.runtime_dir.clone(),
            snapshot_options: snapshot::creating_store_options(self)?,
            git: self.git_environment(),
            rules: self.read_permission_rules()?,
        })
    }

    /// Environment variables passed to git.
    pub(crate) fn git_environment(&self) -> GitEnvironment {
        let named = |name: &str| {
            let mut all = self.invocation.variables.iter();
            all.find(|(key, _)| key == OsStr::new(name)).map(|(_, value)| value.clone())
        };
        GitEnvironment {
            path: named("PATH").unwrap_or_default(),
            home: self.git.home.clone().map(PathBuf::into_os_string),
            config_home: named("XDG_CONFIG_HOME"),
        }
    }

    /// Permission rules from the user's configuration.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub(crate) fn read_permission_rules(&self) -> Result<RuleSettings, CliError> {
        let home = self.git.home.as_deref().unwrap_or(Path::new("~"));
        let home = home.to_string_lossy().into_owned();
        let user = match &self.read_config()?.permission {
            Some(setting) => {
                parse_rule_config(setting, &home).map_err(|error| CliError::Refused {
                    what: error.to_string(),
                    hint: Some(
                        "correct the `permission` setting in the configuration file".to_owned(),
                    ),
                })?
            }
            None => Vec::new(),
        };
        let mut user_files = self.opencode_config_files();
        user_files.extend(self.environment_variable("OPENCODE_CONFIG").map(PathBuf::from));
        let folders = [(&self.git.config, "opencode"), (&self.git.home, ".opencode")];
        let folders = folders.into_iter().filter_map(|(it, inner)| Some(it.as_ref()?.join(inner)));
        Ok(RuleSettings {
            user,
            user_files,
            user_text: self.environment_variable("OPENCODE_CONFIG_CONTENT").map(str::to_owned),
            user_agent_folders: folders.collect(),
            home,
            trust_record: Some(self.layout.root().to_owned()),
            ..RuleSettings::default()
        })
    }

    /// OpenCode's user configuration files, lowest precedence first.
    fn opencode_config_files(&self) -> Vec<PathBuf> {
        let below = |folder: &Option<PathBuf>, inner: &str, names: &[&str]| -> Vec<PathBuf> {
            let folder = folder.as_ref().map(|folder| folder.join(inner));
            folder.map(|it| names.iter().map(|name| it.join(name)).collect()).unwrap_or_default()
        };
        let names = ["config.json", "opencode.json", "opencode.jsonc"];
        let mut files = below(&self.git.config, "opencode", &names);
        files.extend(below(&self.git.home, ".opencode", &names[1..]));
        files
    }

    /// Runs the daily snapshot maintenance after a command (R41); a failure is retried next time.
    pub(crate) fn run_maintenance(&self, engine: &Engine) {
        if let Err(error) = engine.maintenance().run(&self.context(), MaintenanceInterval::Daily) {
            tracing::info!("snapshot maintenance failed: {error}");
        }
    }

    /// Environment variables that a command inherits.
    pub(crate) fn environment_variables(&self) -> &[(OsString, OsString)] {
        &self.invocation.variables
    }

    /// Command line arguments, program name first.
    pub(crate) fn args(&self) -> &[OsString] {
        &self.invocation.args
    }

    /// The acting user.
    pub(crate) const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Value of an environment variable; `None` if unset or empty.
    pub(crate) fn environment_variable(&self, name: &str) -> Option<&str> {
        let mut all = self.invocation.variables.iter();
        let found = all.find(|(key, _)| key == OsStr::new(name));
        found.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty())
    }

    /// The session whose command runs this program, if any.
    pub(crate) fn enclosing_session(&self) -> Option<&str> {
        self.invocation.session.as_deref()
    }

    /// Path of this executable.
    ///
    /// # Errors
    ///
    /// [`CliError::Refused`] if the system does not report it.
    pub(crate) fn executable_path(&self) -> Result<&Path, CliError> {
        let unknown = || CliError::Refused {
            what: "cannot find the path of the turnstone executable".to_owned(),
            hint: Some("check that /proc is mounted".to_owned()),
        };
        self.invocation.program.as_deref().ok_or_else(unknown)
    }
}
