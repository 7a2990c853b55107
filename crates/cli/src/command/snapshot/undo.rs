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

/// Undo the last restore
///
/// Later changes to the files are kept: text is merged, other files are skipped and the command exits
/// with 4. Running it again undoes the undo.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot undo --dry-run\n  \
                        turnstone snapshot undo --list")]
pub(crate) struct SnapshotUndoArgs {
    /// Operation to undo [default: the last one]
    #[arg(value_name = "OPERATION")]
    operation: Option<String>,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// List the operations, newest first, and exit
    #[arg(long, conflicts_with_all = ["operation", "dry_run"])]
    list: bool,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotUndoArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    if args.list {
        return list_operations(ui, app, &store);
    }
    let operation = store.handle.reader().find_operation(args.operation.as_deref())?;
    let plan = store.handle.plan_undo(&operation.id, app.now())?;
    let now = app.now();
    ui.print_dim_note(&format!(
        "undoing: {} ({})",
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
    let exit = apply_plan(ui, app, &store, OperationAction::Undo { of: operation.id }, plan)?;
    store.finish_with_maintenance(app);
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
        OperationAction::Decided { by } => format!("operation {by}"),
        OperationAction::Undo { of } => format!("undo {}", &of.as_str()[..SHORT_ID_LENGTH]),
    }
}

fn list_operations(
    ui: &mut Ui,
    app: &CliApp,
    store: &DirectoryStore,
) -> Result<ProgramExit, CliError> {
    let operations = store.handle.reader().list_operations()?;
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
        ui.print_note(&format!("nothing has been restored in {} yet", store.root().display()));
        return Ok(ProgramExit::Ok);
    }
    let columns = [
        ("OPERATION", ColumnKind::Text),
        ("TIME", ColumnKind::Text),
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
