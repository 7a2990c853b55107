//! `turnstone snapshot restore`

use std::collections::BTreeSet;
use std::path::PathBuf;

use turnstone_core::permission::Gate;
use turnstone_snapshot::{Action, OperationId, Order, RelPath};

use super::path::chosen;
use super::report;
use super::site::Site;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
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

pub(super) fn run(ui: &mut Ui, app: &App, args: &RestoreArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let target = site.vault.find_capture(&args.tree)?;
    let paths = meant(ui, &site, args)?;
    let plan = site.vault.plan_restore(&target, paths.as_ref(), args.keep_added, app.now())?;
    if args.dry_run {
        return report::print(ui, &report::foreseen(&plan), None, true);
    }
    let paths = paths.into_iter().flatten().collect();
    let action = Action::Restore { tree: target.tree, paths };
    let exit = carry_out(ui, app, &site, action, plan)?;
    site.close(app);
    Ok(exit)
}

fn meant(
    ui: &mut Ui,
    site: &Site,
    args: &RestoreArgs,
) -> Result<Option<BTreeSet<RelPath>>, CliError> {
    if !args.paths.is_empty() {
        return chosen(site.root(), &site.directory, &args.paths);
    }
    let scope = site.scope().filter(|_| !args.whole).cloned();
    if let Some(scope) = &scope {
        site.tell_scope(ui, scope);
    }
    Ok(scope.map(|scope| [scope].into()))
}

/// Lets a plan pass the permission rules: those of the sessions of this directory, or, where none has
/// ever worked, those of the user and of the directory (R37).
fn pass_gate(app: &App, site: &Site, plan: &turnstone_snapshot::Plan) -> Result<(), CliError> {
    let paths: Vec<String> = plan.steps.iter().map(|step| step.path.to_string()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    if app.layout().database().exists() {
        app.engine()?.require_at(&app.context(), site.root(), Gate::Revert, &paths)?;
    } else {
        app.rules()?.judge_at(&app.context(), site.root(), (Gate::Revert, &paths))?;
    }
    Ok(())
}

/// Applies a plan under an id of its own and says what came of it.
pub(super) fn carry_out(
    ui: &mut Ui,
    app: &App,
    site: &Site,
    action: Action,
    plan: turnstone_snapshot::Plan,
) -> Result<Exit, CliError> {
    pass_gate(app, site, &plan)?;
    let mint = OperationId::mint();
    let id =
        mint.map_err(|source| CliError::File { what: "no random bytes".to_owned(), source })?;
    let order = Order { id, action, plan };
    let done = site.vault.apply(&order, app.now())?;
    let logged = done.guard.is_some().then_some(&order.id);
    report::print(ui, &done, logged, false)
}
