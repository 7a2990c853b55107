//! The snapshot store of a directory, opened for a command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{
    CaptureRules, GcRequest, ListedCapture, MaintenanceInterval, PinGroup, RelPath, RootPolicy,
    SnapshotError, SnapshotHandle, SnapshotOptions, StorageBudget, StoreLinkage, StoreRegistry,
};

use crate::app::CliApp;
use crate::config_file::SnapshotSettings;
use crate::error::CliError;
use crate::number_format;
use crate::ui::Ui;

/// Pin group of captures taken with `snapshot track`.
const CLI_GROUP: &str = "cli";
/// Bytes that maintenance may copy at the end of a command: less than a second of work.
const COMMAND_MAINTENANCE_BYTES: u64 = 16 << 20;
/// Bytes that maintenance may copy while idle.
const IDLE_MAINTENANCE_BYTES: u64 = 1 << 30;

/// Which store to open, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectoryStoreRequest<'a> {
    /// The directory; `None` for the current directory.
    pub(super) directory: Option<&'a Path>,
    /// Allow the home directory and the root of the file system.
    pub(super) allow_large_root: bool,
    /// Create a store if there is none.
    pub(super) create: bool,
}

/// A directory and its store.
pub(super) struct DirectoryStore {
    pub(super) handle: SnapshotHandle,
    /// Canonical path of the directory.
    pub(super) directory: PathBuf,
    settings: SnapshotSettings,
}

impl DirectoryStore {
    /// Opens the store of a directory and prints notices.
    pub(super) fn open(
        ui: &mut Ui,
        app: &CliApp,
        request: DirectoryStoreRequest<'_>,
    ) -> Result<Self, CliError> {
        let directory = match request.directory {
            Some(given) => app.directory()?.join(given),
            None => app.directory()?.to_owned(),
        };
        let settings = app.read_config()?.snapshot;
        let options = build_store_options(app, &settings, request);
        let data = app.layout().root();
        let handle =
            SnapshotHandle::open(data, app.runtime_directory(), &directory, options, app.now())?;
        let directory = fs_err::canonicalize(&directory).unwrap_or(directory);
        let store = Self { handle, directory, settings };
        store.print_notices(ui);
        Ok(store)
    }

    /// Opens the store of the current directory, if there is one.
    pub(super) fn open_current(ui: &mut Ui, app: &CliApp) -> Result<Self, CliError> {
        Self::open(ui, app, DirectoryStoreRequest::default())
    }

    fn print_notices(&self, ui: &mut Ui) {
        if let StoreLinkage::Moved(from) = &self.handle.location().link {
            let (from, to) = (from.display(), self.root().display());
            ui.print_note(&format!("{from} has moved to {to}; its captures are kept"));
        }
        let finished = self.handle.resumed_restores();
        if !finished.is_empty() {
            let count = |report: &turnstone_snapshot::RestoreReport| {
                report.restored.len() + report.removed.len() + report.merged.len()
            };
            let files =
                number_format::format_counted(finished.iter().map(count).sum::<usize>(), "file");
            ui.print_note(&format!("finished an interrupted restore ({files})"));
        }
    }

    /// The root of the worktree.
    pub(super) fn root(&self) -> &Path {
        &self.handle.location().root
    }

    /// The current directory relative to the root, if it is a subdirectory.
    pub(super) fn scope(&self) -> Option<&RelPath> {
        self.handle.location().scope.as_ref()
    }

    /// Prints that only a subdirectory is used.
    pub(super) fn print_scope(&self, ui: &mut Ui, scope: &RelPath) {
        let whole = self.root().display();
        ui.print_dim_note(&format!("limited to {scope}/ (use --whole for all of {whole})"));
    }

    /// Pin group of captures taken with `snapshot track`.
    pub(super) fn capture_group() -> PinGroup {
        PinGroup::new(CLI_GROUP)
    }

    /// What maintenance may remove: old captures of the user and of deleted sessions. Other pinned
    /// captures and guards of operations stay (R14).
    pub(super) fn build_sweep(
        &self,
        app: &CliApp,
        effort: u64,
    ) -> Result<GcRequest, SnapshotError> {
        let (guards, others): (Vec<_>, Vec<_>) =
            self.handle.reader().list_captures()?.into_iter().partition(ListedCapture::is_guard);
        let others = others
            .into_iter()
            .filter(|capture| capture.group != CLI_GROUP && !capture.is_internal());
        let mut live: BTreeSet<String> = others.map(|capture| capture.group).collect();
        let gone = app.groups_of_deleted_sessions(&live);
        live.retain(|group| !gone.contains(group));
        match app.pinned_guards() {
            Some(pinned) => live.extend(pinned),
            None => live.extend(guards.into_iter().map(|guard| guard.group)),
        }
        Ok(GcRequest {
            live,
            deleted: BTreeSet::new(),
            keep: self.retention_millis(),
            effort,
            dry_run: false,
            now: app.now(),
        })
    }

    /// Retention of captures, in milliseconds.
    pub(super) fn retention_millis(&self) -> i64 {
        self.settings.retention_millis()
    }

    /// Runs the daily maintenance after a command (R41); a failure is retried next time.
    pub(super) fn finish_with_maintenance(self, app: &CliApp) {
        self.run_maintenance(app, MaintenanceInterval::Daily, COMMAND_MAINTENANCE_BYTES);
    }

    /// Runs the hourly maintenance and the journal audit of an idle store owner.
    pub(super) fn run_idle_maintenance(&self, app: &CliApp) {
        self.run_maintenance(app, MaintenanceInterval::Hourly, IDLE_MAINTENANCE_BYTES);
        match self.handle.maintenance().audit_journal_if_due(app.now()) {
            Ok(Some(audit)) if !audit.missed.is_empty() => {
                let missed = number_format::format_counted(audit.missed.len(), "change");
                tracing::warn!("the watcher missed {missed}; captures scan all files from now on");
            }
            Ok(_) => {}
            Err(error) => tracing::info!("the journal audit failed: {error}"),
        }
    }

    fn run_maintenance(&self, app: &CliApp, interval: MaintenanceInterval, effort: u64) {
        if !self.handle.maintenance().is_maintenance_due(interval, app.now()) {
            return;
        }
        let maintained = self.build_sweep(app, effort).and_then(|sweep| {
            self.handle.maintenance().maintain_if_due(interval, &sweep).map(drop)
        });
        if let Err(error) = maintained {
            tracing::info!("snapshot maintenance failed: {error}");
        }
        let registry = StoreRegistry::new(app.layout().root());
        if let Err(error) =
            registry.remove_orphaned_stores(self.retention_millis(), app.now(), false)
        {
            tracing::info!("cannot remove stores of deleted directories: {error}");
        }
    }
}

/// Options for commands that create a store if needed.
///
/// # Errors
///
/// The configuration cannot be read.
pub(crate) fn creating_store_options(app: &CliApp) -> Result<SnapshotOptions, CliError> {
    let request = DirectoryStoreRequest { create: true, ..DirectoryStoreRequest::default() };
    Ok(build_store_options(app, &app.read_config()?.snapshot, request))
}

/// Opens the store of a directory without creating one.
///
/// # Errors
///
/// [`SnapshotError::Untracked`] if there is none.
pub(crate) fn open_existing_store(
    app: &CliApp,
    directory: &Path,
) -> Result<SnapshotHandle, CliError> {
    let options =
        build_store_options(app, &app.read_config()?.snapshot, DirectoryStoreRequest::default());
    Ok(SnapshotHandle::open(
        app.layout().root(),
        app.runtime_directory(),
        directory,
        options,
        app.now(),
    )?)
}

fn build_store_options(
    app: &CliApp,
    settings: &SnapshotSettings,
    request: DirectoryStoreRequest<'_>,
) -> SnapshotOptions {
    let defaults = CaptureRules::default();
    let user_git = app.user_git_config().read_config();
    let selection = CaptureRules {
        max_file_bytes: settings.max_file_size,
        generated: settings.generated.clone().unwrap_or(defaults.generated),
        user_excludes: app.user_git_config().read_excludes(user_git.as_ref()),
        user_git,
        own_data: None,
    };
    let policy =
        RootPolicy { home: app.user_git_config().home.clone(), by_name: request.allow_large_root };
    let (store, total) = (settings.budget, settings.total_budget);
    let budget = StorageBudget { store, total, ..StorageBudget::default() };
    SnapshotOptions {
        selection,
        policy,
        create_store: request.create,
        budget,
        ..SnapshotOptions::default()
    }
}
