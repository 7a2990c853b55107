//! `turnstone snapshot restore`

use std::collections::BTreeSet;
use std::path::PathBuf;

use turnstone_core::permission::GatedOperation;
use turnstone_snapshot::{OperationAction, OperationId, OperationRequest, RelPath};

use super::directory_store::DirectoryStore;
use super::path_args::resolve_paths;
use super::restore_report;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Make files equal to a capture
///
/// Files that were added since are removed, unless --keep-added. What is overwritten or removed is
/// kept first: `undo` takes it back. Files outside the capture's cover are never touched. In a
/// directory below the root only what lies below it is restored. Ends with 4 if a file was left
/// alone because it changed meanwhile. The permission `revert` applies: a rule may deny it, and a
/// command inside a turn is refused or asked about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot restore 4b825dc6 --dry-run\n  \
                        turnstone snapshot restore 4b825dc6 src/lib.rs")]
pub(crate) struct RestoreArgs {
    /// The tree or the capture: its id, or a beginning no other one has
    #[arg(value_name = "TREE")]
    tree: String,

    /// Only these files and directories
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath, conflicts_with = "whole")]
    paths: Vec<PathBuf>,

    /// Print what would change, and stop
    #[arg(long)]
    dry_run: bool,

    /// Leave files that the capture does not have
    #[arg(long)]
    keep_added: bool,

    /// Everything, wherever you are
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &RestoreArgs) -> Result<ProgramExit, CliError> {
    let site = DirectoryStore::open_current(ui, app)?;
    let target = site.handle.find_capture(&args.tree)?;
    let paths = resolve_selection(ui, &site, args)?;
    let plan = site.handle.plan_restore(&target, paths.as_ref(), args.keep_added, app.now())?;
    if args.dry_run {
        return restore_report::print_report(
            ui,
            &restore_report::predict_report(&plan),
            None,
            true,
        );
    }
    let paths = paths.into_iter().flatten().collect();
    let action = OperationAction::Restore { tree: target.tree, paths };
    let exit = apply_plan(ui, app, &site, action, plan)?;
    site.finish_with_maintenance(app);
    Ok(exit)
}

fn resolve_selection(
    ui: &mut Ui,
    site: &DirectoryStore,
    args: &RestoreArgs,
) -> Result<Option<BTreeSet<RelPath>>, CliError> {
    if !args.paths.is_empty() {
        return resolve_paths(site.root(), &site.directory, &args.paths);
    }
    let scope = site.scope().filter(|_| !args.whole).cloned();
    if let Some(scope) = &scope {
        site.print_scope(ui, scope);
    }
    Ok(scope.map(|scope| [scope].into()))
}

/// Lets a plan pass the permission rules: those of the sessions of this directory, or, where none has
/// ever worked, those of the user and of the directory (R37).
fn require_revert_permission(
    app: &CliApp,
    site: &DirectoryStore,
    plan: &turnstone_snapshot::RestorePlan,
) -> Result<(), CliError> {
    let paths: Vec<String> = plan.steps.iter().map(|step| step.path.to_string()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    if app.layout().database().exists() {
        app.open_engine()?.permissions().gates().require_at(
            &app.context(),
            site.root(),
            GatedOperation::Revert,
            &paths,
        )?;
    } else {
        app.read_permission_rules()?.enforce_gate_at(
            &app.context(),
            site.root(),
            (GatedOperation::Revert, &paths),
        )?;
    }
    Ok(())
}

/// Applies a plan under an id of its own and says what came of it.
pub(super) fn apply_plan(
    ui: &mut Ui,
    app: &CliApp,
    site: &DirectoryStore,
    action: OperationAction,
    plan: turnstone_snapshot::RestorePlan,
) -> Result<ProgramExit, CliError> {
    require_revert_permission(app, site, &plan)?;
    let mint = OperationId::generate();
    let id =
        mint.map_err(|source| CliError::File { what: "no random bytes".to_owned(), source })?;
    let order = OperationRequest { id, action, plan };
    let done = site.handle.apply_once(&order, app.now())?;
    let logged = done.guard.is_some().then_some(&order.id);
    restore_report::print_report(ui, &done, logged, false)
}
