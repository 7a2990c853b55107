//! `turnstone snapshot diff`

use serde_json::{Value, json};
use turnstone_snapshot::{CaptureDiff, DiffOptions, DiffStatus, PatchBody, PathDiff};

use super::directory_store::DirectoryStore;
use super::track::{skipped_json, summarize_skipped};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Compare two captures, or a capture with the current files
///
/// Prints a patch for `git apply`. Files that are too large for it are listed on stderr, and the exit code
/// is 4. In a subdirectory, compares only that subdirectory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot diff 4b825dc6\n  \
                        turnstone snapshot diff 4b825dc6 a2f1 --stat")]
pub(crate) struct SnapshotDiffArgs {
    /// Older tree or capture
    #[arg(value_name = "A")]
    before: String,

    /// Newer tree or capture [default: the current files]
    #[arg(value_name = "B")]
    after: Option<String>,

    /// Show the number of changed lines per file
    #[arg(long)]
    stat: bool,

    /// Lines of context
    #[arg(long, short = 'U', value_name = "N", default_value_t = 3)]
    context: usize,

    /// Compare the whole worktree, not only the current directory
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotDiffArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let scope = store.scope().filter(|_| !args.whole).cloned();
    if let Some(scope) = &scope {
        store.print_scope(ui, scope);
    }
    let options = DiffOptions {
        scope,
        context: args.context,
        binary_patches: true,
        // JSON holds no other text.
        only_utf8_is_text: ui.wants_json(),
        ..DiffOptions::default()
    };
    let before = store.handle.reader().find_capture(&args.before)?;
    let diff = match &args.after {
        Some(after) => store.handle.reader().diff_captures(
            &before,
            &store.handle.reader().find_capture(after)?,
            &options,
        )?,
        None => store.handle.reader().diff_worktree(&before, &options)?,
    };
    if ui.wants_json() {
        ui.print_json(&diff_json(&diff))?;
    } else if args.stat {
        print_stat(ui, &diff)?;
    } else {
        ui.print_bytes(&diff.patch())?;
        print_omitted_files(ui, &diff);
    }
    if let Some(reasons) = summarize_skipped(&diff.not_covered) {
        ui.print_dim_note(&format!("not compared: {reasons}"));
    }
    store.finish_with_maintenance(app);
    let is_omitted =
        |file: &PathDiff| matches!(file.patch, PatchBody::Binary | PatchBody::TooLarge);
    let is_part = !args.stat && !ui.wants_json() && diff.files.iter().any(is_omitted);
    Ok(if is_part { ProgramExit::Conflict } else { ProgramExit::Ok })
}

fn diff_json(diff: &CaptureDiff) -> Value {
    let file = |file: &PathDiff| {
        let text = match &file.patch {
            PatchBody::Text(text) | PatchBody::BinaryPatch(text) => {
                Some(String::from_utf8_lossy(text))
            }
            PatchBody::Binary | PatchBody::TooLarge => None,
        };
        json!({
            "file": file.path,
            "status": file.status,
            "additions": file.additions,
            "deletions": file.deletions,
            "binary": matches!(file.patch, PatchBody::Binary | PatchBody::BinaryPatch(_)),
            "too_large": file.patch == PatchBody::TooLarge,
            "patch": text,
        })
    };
    json!({
        "files": diff.files.iter().map(file).collect::<Vec<_>>(),
        "not_covered": skipped_json(&diff.not_covered),
    })
}

fn print_stat(ui: &mut Ui, diff: &CaptureDiff) -> Result<(), CliError> {
    let columns = [
        ("", ColumnKind::Text),
        ("", ColumnKind::Number),
        ("", ColumnKind::Number),
        ("", ColumnKind::Text),
    ];
    let mut grid = TextTable::new(&columns);
    for file in &diff.files {
        let (plus, minus) = match file.patch {
            PatchBody::Text(_) => (format!("+{}", file.additions), format!("-{}", file.deletions)),
            PatchBody::Binary | PatchBody::BinaryPatch(_) => ("binary".to_owned(), String::new()),
            PatchBody::TooLarge => ("large".to_owned(), String::new()),
        };
        grid.add_row(&[status_name(file.status).to_owned(), plus, minus, file.path.to_string()]);
    }
    ui.print_table(&grid)?;
    if diff.files.is_empty() {
        ui.print_note("no differences");
        return Ok(());
    }
    let sum = |count: fn(&PathDiff) -> usize| diff.files.iter().map(count).sum::<usize>();
    let files = number_format::format_counted(diff.files.len(), "file");
    let plus = number_format::format_counted(sum(|file| file.additions), "line");
    let minus = number_format::format_counted(sum(|file| file.deletions), "line");
    ui.print_note(&format!("{files} changed, {plus} added, {minus} removed"));
    Ok(())
}

const fn status_name(status: DiffStatus) -> &'static str {
    match status {
        DiffStatus::Added => "added",
        DiffStatus::Modified => "modified",
        DiffStatus::Deleted => "deleted",
        DiffStatus::Type => "type changed",
    }
}

/// Lists the files that the patch omits.
fn print_omitted_files(ui: &mut Ui, diff: &CaptureDiff) {
    for file in &diff.files {
        let what = match file.patch {
            PatchBody::Text(_) | PatchBody::BinaryPatch(_) => continue,
            PatchBody::Binary => "binary",
            PatchBody::TooLarge => "too large, not in the patch",
        };
        ui.print_note(&format!("{} {}: {what}", status_name(file.status), file.path));
    }
    if diff.files.is_empty() {
        ui.print_note("no differences");
    }
}
