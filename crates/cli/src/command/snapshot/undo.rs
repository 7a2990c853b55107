//! `turnstone snapshot undo`

use serde_json::{Value, json};
use turnstone_snapshot::{LoggedOperation, OperationAction};

use super::directory_store::DirectoryStore;
use super::list::SHORT_ID_LENGTH;
use super::restore::apply_plan;
use super::restore_report;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Take back the last restore
///
/// What was changed since is kept: merged where it is text, otherwise the file is left alone and
/// the command ends with 4. An undo is taken back the same way.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot undo --dry-run\n  \
                        turnstone snapshot undo --list")]
pub(crate) struct SnapshotUndoArgs {
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

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotUndoArgs,
) -> Result<ProgramExit, CliError> {
    let site = DirectoryStore::open_current(ui, app)?;
    if args.list {
        return list_operations(ui, app, &site);
    }
    let operation = site.handle.find_operation(args.operation.as_deref())?;
    let plan = site.handle.plan_undo(&operation.id, app.now())?;
    let now = app.now();
    ui.print_dim_note(&format!(
        "taking back: {} ({})",
        describe_operation(&operation),
        time_format::format_local_time(operation.time.0, now)
    ));
    if args.dry_run {
        return restore_report::print_report(
            ui,
            &restore_report::predict_report(&plan),
            None,
            true,
        );
    }
    let exit = apply_plan(ui, app, &site, OperationAction::Undo { of: operation.id }, plan)?;
    site.finish_with_maintenance(app);
    Ok(exit)
}

fn describe_operation(operation: &LoggedOperation) -> String {
    match &operation.action {
        OperationAction::Restore { tree, paths } => {
            let tree = &tree.to_string()[..SHORT_ID_LENGTH];
            match paths.len() {
                0 => format!("restore {tree}"),
                1 => format!("restore {tree} {}", paths[0]),
                count => {
                    format!("restore {tree} ({})", number_format::format_counted(count, "path"))
                }
            }
        }
        OperationAction::Decided { by } => by.clone(),
        OperationAction::Undo { of } => format!("undo {}", &of.as_str()[..SHORT_ID_LENGTH]),
    }
}

fn list_operations(
    ui: &mut Ui,
    app: &CliApp,
    site: &DirectoryStore,
) -> Result<ProgramExit, CliError> {
    let operations = site.handle.list_operations()?;
    if ui.wants_json() {
        let value = |operation: &LoggedOperation| {
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
        ui.print_json(&Value::Array(operations.iter().map(value).collect()))?;
        return Ok(ProgramExit::Ok);
    }
    if operations.is_empty() {
        ui.print_note(&format!("nothing has been restored in {} yet", site.root().display()));
        return Ok(ProgramExit::Ok);
    }
    let columns = [
        ("OPERATION", ColumnKind::Text),
        ("DONE", ColumnKind::Text),
        ("FILES", ColumnKind::Number),
        ("WHAT", ColumnKind::Truncated),
    ];
    let mut grid = TextTable::new(&columns);
    for operation in &operations {
        let done = &operation.report;
        let files = done.restored.len() + done.removed.len() + done.merged.len();
        grid.add_row(&[
            operation.id.as_str()[..SHORT_ID_LENGTH].to_owned(),
            time_format::format_local_time(operation.time.0, app.now()),
            number_format::format_count(files),
            describe_operation(operation),
        ]);
    }
    ui.print_table(&grid)?;
    Ok(ProgramExit::Ok)
}
