//! A directory and its store, opened for a command; and what is done when the command ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{
    CaptureSelection, GcRequest, ListedCapture, MaintenanceInterval, PinGroup, RelPath, RootPolicy,
    SnapshotError, SnapshotHandle, SnapshotOptions, StorageBudget, StoreLinkage, StoreRegistry,
};

use crate::app::CliApp;
use crate::config_file::SnapshotSettings;
use crate::error::CliError;
use crate::number_format;
use crate::ui::Ui;

/// The pin group of captures that people take.
const CLI_GROUP: &str = "cli";
/// Bytes that upkeep copies at the end of a command: done in less than a second.
const COMMAND_MAINTENANCE_BYTES: u64 = 16 << 20;
/// Bytes that upkeep copies while nobody waits.
const IDLE_MAINTENANCE_BYTES: u64 = 1 << 30;

/// Which directory is meant, and what may be done for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectoryStoreRequest<'a> {
    /// The directory; nothing for the one the program was started in.
    pub(super) directory: Option<&'a Path>,
    /// Take the home directory or the whole file system, too.
    pub(super) allow_large_root: bool,
    /// Make a store if there is none.
    pub(super) create: bool,
}

/// A directory with its store.
pub(super) struct DirectoryStore {
    pub(super) handle: SnapshotHandle,
    /// The real path of the directory.
    pub(super) directory: PathBuf,
    settings: SnapshotSettings,
}

impl DirectoryStore {
    /// Opens the store of a directory and says what is unusual about it.
    pub(super) fn open(
        ui: &mut Ui,
        app: &CliApp,
        wanted: DirectoryStoreRequest<'_>,
    ) -> Result<Self, CliError> {
        let directory = match wanted.directory {
            Some(given) => app.directory()?.join(given),
            None => app.directory()?.to_owned(),
        };
        let settings = app.read_config()?.snapshot;
        let options = build_store_options(app, &settings, wanted);
        let data = app.layout().root();
        let vault =
            SnapshotHandle::open(data, app.runtime_directory(), &directory, options, app.now())?;
        let directory = fs_err::canonicalize(&directory).unwrap_or(directory);
        let site = Self { handle: vault, directory, settings };
        site.print_notices(ui);
        Ok(site)
    }

    /// Opens the store of the directory the program was started in, if there is one.
    pub(super) fn open_current(ui: &mut Ui, app: &CliApp) -> Result<Self, CliError> {
        Self::open(ui, app, DirectoryStoreRequest::default())
    }

    fn print_notices(&self, ui: &mut Ui) {
        if let StoreLinkage::Moved(from) = &self.handle.location().link {
            let (from, to) = (from.display(), self.root().display());
            ui.print_note(&format!("{from} has moved to {to}; its captures came along"));
        }
        let finished = self.handle.resumed_restores();
        if !finished.is_empty() {
            let count = |report: &turnstone_snapshot::RestoreReport| {
                report.restored.len() + report.removed.len() + report.merged.len()
            };
            let files = number_format::format_counted(finished.iter().map(count).sum(), "file");
            ui.print_note(&format!("finished a restore that was cut off ({files})"));
        }
    }

    /// The root of the worktree.
    pub(super) fn root(&self) -> &Path {
        &self.handle.location().root
    }

    /// The part of the worktree the program was started in.
    pub(super) fn scope(&self) -> Option<&RelPath> {
        self.handle.location().scope.as_ref()
    }

    /// Says that only a part is looked at.
    pub(super) fn print_scope(&self, ui: &mut Ui, scope: &RelPath) {
        let whole = self.root().display();
        ui.print_dim_note(&format!("only below {scope}/ (--whole for all of {whole})"));
    }

    /// The group that keeps what people capture.
    pub(super) fn capture_group() -> PinGroup {
        PinGroup::new(CLI_GROUP)
    }

    /// What upkeep may take away: old captures of people and of sessions that are gone; what anybody
    /// else pinned stays, and so does what operations displaced (R14).
    pub(super) fn build_sweep(
        &self,
        app: &CliApp,
        effort: u64,
    ) -> Result<GcRequest, SnapshotError> {
        let (guards, others): (Vec<_>, Vec<_>) =
            self.handle.list_captures()?.into_iter().partition(ListedCapture::is_guard);
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
            keep: self.retention_millis(),
            effort,
            dry_run: false,
            now: app.now(),
        })
    }

    /// How long captures are kept, in milliseconds.
    pub(super) fn retention_millis(&self) -> i64 {
        self.settings.retention_millis()
    }

    /// Ends a command: a little upkeep, once a day (R41). What fails is tried again the next time.
    pub(super) fn finish_with_maintenance(self, app: &CliApp) {
        self.run_maintenance(app, MaintenanceInterval::Daily, COMMAND_MAINTENANCE_BYTES);
    }

    /// Upkeep of a keeper that has nothing else to do.
    pub(super) fn run_idle_maintenance(&self, app: &CliApp) {
        self.run_maintenance(app, MaintenanceInterval::Hourly, IDLE_MAINTENANCE_BYTES);
        match self.handle.audit_journal_if_due(app.now()) {
            Ok(Some(audit)) if !audit.missed.is_empty() => {
                let missed = number_format::format_counted(audit.missed.len(), "change");
                tracing::warn!("the journal missed {missed}; every file is looked at from now on");
            }
            Ok(_) => {}
            Err(error) => tracing::info!("the audit of the journal failed: {error}"),
        }
    }

    fn run_maintenance(&self, app: &CliApp, cadence: MaintenanceInterval, effort: u64) {
        if !self.handle.is_maintenance_due(cadence, app.now()) {
            return;
        }
        let tended = self
            .build_sweep(app, effort)
            .and_then(|sweep| self.handle.maintain_if_due(cadence, &sweep).map(drop));
        if let Err(error) = tended {
            tracing::info!("upkeep of the snapshots failed: {error}");
        }
        let registry = StoreRegistry::new(app.layout().root());
        if let Err(error) =
            registry.remove_orphaned_stores(self.retention_millis(), app.now(), false)
        {
            tracing::info!("stores of directories that are gone could not be removed: {error}");
        }
    }
}

/// How the stores of commands that make one on the way are opened.
///
/// # Errors
///
/// The configuration cannot be read.
pub(crate) fn creating_store_options(app: &CliApp) -> Result<SnapshotOptions, CliError> {
    let wanted = DirectoryStoreRequest { create: true, ..DirectoryStoreRequest::default() };
    Ok(build_store_options(app, &app.read_config()?.snapshot, wanted))
}

/// Opens the store of a directory if it has one; makes none.
///
/// # Errors
///
/// [`SnapshotError::Untracked`] among them.
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
    wanted: DirectoryStoreRequest<'_>,
) -> SnapshotOptions {
    let usual = CaptureSelection::default();
    let user_git = app.user_git_config().read_config();
    let selection = CaptureSelection {
        max_file_bytes: settings.max_file_size,
        generated: settings.generated.clone().unwrap_or(usual.generated),
        user_excludes: app.user_git_config().read_excludes(user_git.as_ref()),
        user_git,
        own_data: None,
    };
    let policy =
        RootPolicy { home: app.user_git_config().home.clone(), by_name: wanted.allow_large_root };
    let (store, total) = (settings.budget, settings.total_budget);
    let budget = StorageBudget { store, total, ..StorageBudget::default() };
    SnapshotOptions {
        selection,
        policy,
        create_store: wanted.create,
        budget,
        ..SnapshotOptions::default()
    }
}
