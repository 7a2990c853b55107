//! `turnstone snapshot undo`

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnstone_snapshot::{LoggedOperation, OperationAction, SnapshotError};

use super::directory_store::DirectoryStore;
use super::list::SHORT_ID_LENGTH;
use super::restore::apply_plan;
use super::restore_report;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Undo the last restore
///
/// Later changes to the files are kept: text is merged, other files are skipped and the command exits
/// with 4. Running it again undoes the restore before it; `turnstone snapshot redo` reverses an undo.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot undo --dry-run\n  \
                        turnstone snapshot undo --list")]
pub(crate) struct SnapshotUndoArgs {
    /// Operation to undo [default: the last one that is not undone]
    #[arg(value_name = "OPERATION")]
    operation: Option<String>,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// List the operations, newest first, and exit
    #[arg(long, conflicts_with_all = ["operation", "dry_run"])]
    list: bool,
}

/// Redo what `snapshot undo` undid
///
/// Reverses the last undo; repeated, the one before it. Later changes to the files are kept, as with
/// `turnstone snapshot undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot redo --dry-run\n  turnstone snapshot redo")]
pub(crate) struct SnapshotRedoArgs {
    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,
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
    let operation = match &args.operation {
        Some(typed) => store.handle.reader().find_operation(Some(typed))?,
        None => {
            let operations = store.handle.reader().list_operations()?;
            match OperationEffects::new(&operations).next_undo() {
                Some(next) => next.clone(),
                None if operations.is_empty() => {
                    return Err(SnapshotError::NothingToUndo(store.root().to_owned()).into());
                }
                None => {
                    let root = text::sanitize_line(&store.root().to_string_lossy());
                    return Err(CliError::Refused {
                        what: format!("every restore in {root} is undone"),
                        hint: Some("`turnstone snapshot redo` redoes the last one".to_owned()),
                    });
                }
            }
        }
    };
    reverse_operation(ui, app, store, operation, ("undoing", "redo", args.dry_run))
}

pub(super) fn redo(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotRedoArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let operations = store.handle.reader().list_operations()?;
    let Some(operation) = OperationEffects::new(&operations).next_redo().cloned() else {
        let root = text::sanitize_line(&store.root().to_string_lossy());
        return Err(CliError::Refused {
            what: format!("no undo is left to reverse in {root}"),
            hint: Some("`turnstone snapshot undo --list` lists the operations".to_owned()),
        });
    };
    reverse_operation(ui, app, store, operation, ("redoing", "undo", args.dry_run))
}

/// What the operations of a store come to.
struct OperationEffects<'o> {
    /// The newest operation on each restore, in the order of the restores, and whether it is done since.
    newest: BTreeMap<u64, (&'o LoggedOperation, bool)>,
}

impl<'o> OperationEffects<'o> {
    /// Follows operations that are listed newest first.
    fn new(operations: &'o [LoggedOperation]) -> Self {
        let mut newest = BTreeMap::new();
        // The restore that each operation is about, and whether that is done afterwards.
        let mut about: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
        for operation in operations.iter().rev() {
            let (restore, is_done) = match &operation.action {
                OperationAction::Restore { .. } | OperationAction::Decided { .. } => {
                    (operation.number, true)
                }
                OperationAction::Undo { of } => match about.get(of.as_str()) {
                    Some((restore, is_done)) => (*restore, !is_done),
                    // Its record has expired.
                    None => continue,
                },
            };
            about.insert(operation.id.as_str(), (restore, is_done));
            newest.insert(restore, (operation, is_done));
        }
        Self { newest }
    }

    /// The newest operation on the last restore that is not undone.
    fn next_undo(&self) -> Option<&'o LoggedOperation> {
        let done = self.newest.values().rev().find(|(_, is_done)| *is_done);
        done.map(|(operation, _)| *operation)
    }

    /// The newest undo that is not reversed.
    fn next_redo(&self) -> Option<&'o LoggedOperation> {
        let undone = self.newest.values().filter(|(_, is_done)| !is_done);
        undone.map(|(operation, _)| *operation).max_by_key(|operation| operation.number)
    }
}

/// Reverses an operation and prints the report.
fn reverse_operation(
    ui: &mut Ui,
    app: &CliApp,
    store: DirectoryStore,
    operation: LoggedOperation,
    (verb, reverse, dry_run): (&str, &str, bool),
) -> Result<ProgramExit, CliError> {
    let plan = store.handle.plan_undo(&operation.id, app.now())?;
    let now = app.now();
    let what = match &operation.action {
        // What `snapshot undo` reverses is done: it was a redo.
        OperationAction::Undo { of } if reverse == "redo" => {
            format!("redo {}", &of.as_str()[..SHORT_ID_LENGTH])
        }
        OperationAction::Undo { .. }
        | OperationAction::Restore { .. }
        | OperationAction::Decided { .. } => describe_operation(&operation),
    };
    ui.print_dim_note(&format!(
        "{verb}: {what} ({})",
        time_format::format_local_time(operation.time.0, now)
    ));
    if dry_run {
        let predicted = restore_report::predict_report(&plan);
        return restore_report::print_report(ui, &predicted, None, None);
    }
    let action = OperationAction::Undo { of: operation.id };
    let exit = apply_plan(ui, app, &store, (action, reverse), plan)?;
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
