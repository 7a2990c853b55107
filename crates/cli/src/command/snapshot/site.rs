//! A directory and its store, opened for a command; and what is done when the command ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{
    Budget, Cadence, Group, Link, ListedCapture, Registry, RelPath, RootPolicy, Selection, Sweep,
    Vault, VaultError, VaultOptions,
};

use crate::app::App;
use crate::error::CliError;
use crate::figure;
use crate::settings::SnapshotSettings;
use crate::ui::Ui;

/// The pin group of captures that people take.
const GROUP: &str = "cli";
/// Bytes that upkeep copies at the end of a command: done in less than a second.
const BRIEF: u64 = 16 << 20;
/// Bytes that upkeep copies while nobody waits.
const LONG: u64 = 1 << 30;

/// Which directory is meant, and what may be done for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// The directory; nothing for the one the program was started in.
    pub(super) directory: Option<&'a Path>,
    /// Take the home directory or the whole file system, too.
    pub(super) insist: bool,
    /// Make a store if there is none.
    pub(super) make: bool,
}

/// A directory with its store.
pub(super) struct Site {
    pub(super) vault: Vault,
    /// The real path of the directory.
    pub(super) directory: PathBuf,
    settings: SnapshotSettings,
}

impl Site {
    /// Opens the store of a directory and says what is unusual about it.
    pub(super) fn open(ui: &mut Ui, app: &App, wanted: Wanted<'_>) -> Result<Self, CliError> {
        let directory = match wanted.directory {
            Some(given) => app.directory()?.join(given),
            None => app.directory()?.to_owned(),
        };
        let settings = app.settings()?.snapshot;
        let options = options(app, &settings, wanted);
        let data = app.layout().root();
        let vault = Vault::open(data, app.runtime(), &directory, options, app.now())?;
        let directory = fs_err::canonicalize(&directory).unwrap_or(directory);
        let site = Self { vault, directory, settings };
        site.tell(ui);
        Ok(site)
    }

    /// Opens the store of the directory the program was started in, if there is one.
    pub(super) fn here(ui: &mut Ui, app: &App) -> Result<Self, CliError> {
        Self::open(ui, app, Wanted::default())
    }

    fn tell(&self, ui: &mut Ui) {
        if let Link::Moved(from) = &self.vault.place().link {
            let (from, to) = (from.display(), self.root().display());
            ui.note(&format!("{from} has moved to {to}; its captures came along"));
        }
        let finished = self.vault.resumed();
        if !finished.is_empty() {
            let count = |report: &turnstone_snapshot::Report| {
                report.restored.len() + report.removed.len() + report.merged.len()
            };
            let files = figure::counted(finished.iter().map(count).sum(), "file");
            ui.note(&format!("finished a restore that was cut off ({files})"));
        }
    }

    /// The root of the worktree.
    pub(super) fn root(&self) -> &Path {
        &self.vault.place().root
    }

    /// The part of the worktree the program was started in.
    pub(super) fn scope(&self) -> Option<&RelPath> {
        self.vault.place().scope.as_ref()
    }

    /// Says that only a part is looked at.
    pub(super) fn tell_scope(&self, ui: &mut Ui, scope: &RelPath) {
        let whole = self.root().display();
        ui.aside(&format!("only below {scope}/ (--whole for all of {whole})"));
    }

    /// The group that keeps what people capture.
    pub(super) fn group() -> Group {
        Group::new(GROUP)
    }

    /// What upkeep may take away: old captures of people and of sessions that are gone; what anybody
    /// else pinned stays, and so does what operations displaced (R14).
    pub(super) fn sweep(&self, app: &App, effort: u64) -> Result<Sweep, VaultError> {
        let (guards, others): (Vec<_>, Vec<_>) =
            self.vault.list_captures()?.into_iter().partition(ListedCapture::is_guard);
        let others =
            others.into_iter().filter(|capture| capture.group != GROUP && !capture.is_internal());
        let mut live: BTreeSet<String> = others.map(|capture| capture.group).collect();
        let gone = app.gone_sessions(&live);
        live.retain(|group| !gone.contains(group));
        match app.pinned_guards() {
            Some(pinned) => live.extend(pinned),
            None => live.extend(guards.into_iter().map(|guard| guard.group)),
        }
        Ok(Sweep { live, keep: self.keep(), effort, dry_run: false, now: app.now() })
    }

    /// How long captures are kept, in milliseconds.
    pub(super) fn keep(&self) -> i64 {
        self.settings.keep()
    }

    /// Ends a command: a little upkeep, once a day (R41). What fails is tried again the next time.
    pub(super) fn close(self, app: &App) {
        self.tend(app, Cadence::Command, BRIEF);
    }

    /// Upkeep of a keeper that has nothing else to do.
    pub(super) fn tend_at_leisure(&self, app: &App) {
        self.tend(app, Cadence::Keeper, LONG);
        match self.vault.audit_if_due(app.now()) {
            Ok(Some(audit)) if !audit.missed.is_empty() => {
                let missed = figure::counted(audit.missed.len(), "change");
                tracing::warn!("the journal missed {missed}; every file is looked at from now on");
            }
            Ok(_) => {}
            Err(error) => tracing::info!("the audit of the journal failed: {error}"),
        }
    }

    fn tend(&self, app: &App, cadence: Cadence, effort: u64) {
        if !self.vault.is_due(cadence, app.now()) {
            return;
        }
        let tended =
            self.sweep(app, effort).and_then(|sweep| self.vault.tend(cadence, &sweep).map(drop));
        if let Err(error) = tended {
            tracing::info!("upkeep of the snapshots failed: {error}");
        }
        let registry = Registry::new(app.layout().root());
        if let Err(error) = registry.remove_gone(self.keep(), app.now(), false) {
            tracing::info!("stores of directories that are gone could not be removed: {error}");
        }
    }
}

/// How the stores of commands that make one on the way are opened.
///
/// # Errors
///
/// The configuration cannot be read.
pub(crate) fn vault_options(app: &App) -> Result<VaultOptions, CliError> {
    let wanted = Wanted { make: true, ..Wanted::default() };
    Ok(options(app, &app.settings()?.snapshot, wanted))
}

/// Opens the store of a directory if it has one; makes none.
///
/// # Errors
///
/// [`VaultError::Untracked`] among them.
pub(crate) fn look(app: &App, directory: &Path) -> Result<Vault, CliError> {
    let options = options(app, &app.settings()?.snapshot, Wanted::default());
    Ok(Vault::open(app.layout().root(), app.runtime(), directory, options, app.now())?)
}

fn options(app: &App, settings: &SnapshotSettings, wanted: Wanted<'_>) -> VaultOptions {
    let usual = Selection::default();
    let user_git = app.git().settings();
    let selection = Selection {
        max_file_bytes: settings.max_file_size,
        generated: settings.generated.clone().unwrap_or(usual.generated),
        user_excludes: app.git().excludes(user_git.as_ref()),
        user_git,
        own_data: None,
    };
    let policy = RootPolicy { home: app.git().home.clone(), by_name: wanted.insist };
    let (store, total) = (settings.budget, settings.total_budget);
    let budget = Budget { store, total, ..Budget::default() };
    VaultOptions { selection, policy, make: wanted.make, budget, ..VaultOptions::default() }
}
