//! `turnstone snapshot restore`

use std::collections::BTreeSet;
use std::path::PathBuf;

use turnstone_core::permission::GatedOperation;
use turnstone_snapshot::{OperationAction, OperationRequest, RelPath, RestoreOperationId};

use super::directory_store::DirectoryStore;
use super::path_args::resolve_paths;
use super::restore_report;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Restore files from a capture
///
/// Files added since are removed, unless --keep-added is given. Overwritten and removed content is saved
/// first, so that `snapshot undo` can reverse the restore. Files that the capture did not record, such as
/// ignored files, do not change. In a subdirectory, restores only that subdirectory. Exits with 4 if a
/// file was skipped because it changed meanwhile.
///
/// Needs the permission `revert`: a rule can deny it, and a command that an agent runs must be
/// approved.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot restore 4b825dc6 --dry-run\n  \
                        turnstone snapshot restore 4b825dc6 src/lib.rs")]
pub(crate) struct RestoreArgs {
    /// Tree or capture ID, or unique prefix
    #[arg(value_name = "TREE")]
    tree: String,

    /// Restore only these files and directories
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath, conflicts_with = "whole")]
    paths: Vec<PathBuf>,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// Keep files that the capture does not contain
    #[arg(long)]
    keep_added: bool,

    /// Restore the whole worktree, not only the current directory
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &RestoreArgs) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let target = store.handle.reader().find_capture(&args.tree)?;
    let paths = resolve_selection(ui, &store, args)?;
    let plan = store.handle.plan_restore(&target, paths.as_ref(), args.keep_added, app.now())?;
    if args.dry_run {
        return restore_report::print_report(
            ui,
            &restore_report::predict_report(&plan),
            None,
            None,
        );
    }
    let paths = paths.into_iter().flatten().collect();
    let action = OperationAction::Restore { tree: target.tree, paths };
    let exit = apply_plan(ui, app, &store, (action, "undo"), plan)?;
    store.finish_with_maintenance(app);
    Ok(exit)
}

fn resolve_selection(
    ui: &mut Ui,
    store: &DirectoryStore,
    args: &RestoreArgs,
) -> Result<Option<BTreeSet<RelPath>>, CliError> {
    if !args.paths.is_empty() {
        return resolve_paths(store.root(), &store.directory, &args.paths);
    }
    let scope = store.scope().filter(|_| !args.whole).cloned();
    if let Some(scope) = &scope {
        store.print_scope(ui, scope);
    }
    Ok(scope.map(|scope| [scope].into()))
}

/// Checks a plan against the permission rules: those of the sessions of this directory, or those of the
/// user and the directory if there are no sessions (R37).
fn require_revert_permission(
    app: &CliApp,
    store: &DirectoryStore,
    plan: &turnstone_snapshot::RestorePlan,
) -> Result<(), CliError> {
    let paths: Vec<String> = plan.steps.iter().map(|step| step.path.to_string()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    if app.layout().database().exists() {
        app.open_engine()?.permissions().gates().require_at(
            &app.context(),
            store.root(),
            GatedOperation::Revert,
            &paths,
        )?;
    } else {
        app.read_permission_rules()?.enforce_gate_at(
            &app.context(),
            store.root(),
            (GatedOperation::Revert, &paths),
        )?;
    }
    Ok(())
}

/// Applies a plan as a new operation and prints the report, with the subcommand that reverses it.
pub(super) fn apply_plan(
    ui: &mut Ui,
    app: &CliApp,
    store: &DirectoryStore,
    (action, reverse): (OperationAction, &str),
    plan: turnstone_snapshot::RestorePlan,
) -> Result<ProgramExit, CliError> {
    require_revert_permission(app, store, &plan)?;
    let what = "cannot generate an operation ID".to_owned();
    let id = RestoreOperationId::generate().map_err(|source| CliError::File { what, source })?;
    let request = OperationRequest { id, action, plan };
    let done = store.handle.apply_once(&request, app.now())?;
    let logged = done.guard.is_some().then_some(&request.id);
    restore_report::print_report(ui, &done, logged, Some(reverse))
}
