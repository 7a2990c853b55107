//! `turnstone snapshot undo`

use serde_json::{Value, json};
use turnstone_snapshot::{Action, Operation};

use super::history::SHORT;
use super::report;
use super::restore::carry_out;
use super::site::Site;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::ui::{Column, Grid, Ui};

/// Take back the last restore
///
/// What was changed since is kept: merged where it is text, otherwise the file is left alone and
/// the command ends with 4. An undo is taken back the same way.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot undo --dry-run\n  \
                        turnstone snapshot undo --list")]
pub(crate) struct UndoArgs {
    /// The operation to take back, if it is not the last one
    #[arg(value_name = "OPERATION")]
    operation: Option<String>,

    /// Print what would change, and stop
    #[arg(long)]
    dry_run: bool,

    /// List the operations, newest first, and stop
    #[arg(long, conflicts_with_all = ["operation", "dry_run"])]
    list: bool,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &UndoArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    if args.list {
        return list(ui, app, &site);
    }
    let operation = site.vault.find_operation(args.operation.as_deref())?;
    let plan = site.vault.plan_undo(&operation.id, app.now())?;
    let now = app.now();
    ui.aside(&format!(
        "taking back: {} ({})",
        what(&operation),
        moment::near(operation.time.0, now)
    ));
    if args.dry_run {
        return report::print(ui, &report::foreseen(&plan), None, true);
    }
    let exit = carry_out(ui, app, &site, Action::Undo { of: operation.id }, plan)?;
    site.close(app);
    Ok(exit)
}

fn what(operation: &Operation) -> String {
    match &operation.action {
        Action::Restore { tree, paths } => {
            let tree = &tree.to_string()[..SHORT];
            match paths.len() {
                0 => format!("restore {tree}"),
                1 => format!("restore {tree} {}", paths[0]),
                count => format!("restore {tree} ({})", figure::counted(count, "path")),
            }
        }
        Action::Decided { by } => by.clone(),
        Action::Undo { of } => format!("undo {}", &of.as_str()[..SHORT]),
    }
}

fn list(ui: &mut Ui, app: &App, site: &Site) -> Result<Exit, CliError> {
    let operations = site.vault.list_operations()?;
    if ui.wants_json() {
        let value = |operation: &Operation| {
            json!({
                "operation": operation.id,
                "number": operation.number,
                "time": operation.time,
                "action": operation.action,
                "restored": operation.report.restored.len(),
                "removed": operation.report.removed.len(),
                "merged": operation.report.merged.len(),
                "conflicts": operation.report.conflicts.len(),
                "guard": operation.report.guard,
            })
        };
        ui.json(&Value::Array(operations.iter().map(value).collect()))?;
        return Ok(Exit::Ok);
    }
    if operations.is_empty() {
        ui.note(&format!("nothing has been restored in {} yet", site.root().display()));
        return Ok(Exit::Ok);
    }
    let columns = [
        ("OPERATION", Column::Text),
        ("DONE", Column::Text),
        ("FILES", Column::Figure),
        ("WHAT", Column::Cut),
    ];
    let mut grid = Grid::new(&columns);
    for operation in &operations {
        let done = &operation.report;
        let files = done.restored.len() + done.removed.len() + done.merged.len();
        grid.row(&[
            operation.id.as_str()[..SHORT].to_owned(),
            moment::near(operation.time.0, app.now()),
            figure::count(files),
            what(operation),
        ]);
    }
    ui.table(&grid)?;
    Ok(Exit::Ok)
}
