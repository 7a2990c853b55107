//! `turnstone snapshot diff`

use serde_json::{Value, json};
use turnstone_snapshot::{Diff, DiffOptions, FileDiff, Patch, Status};

use super::site::Site;
use super::track::{skipped, skipped_json};
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::ui::{Column, Grid, Ui};

/// Compare two captures, or a capture with the files as they are now
///
/// Prints a patch that `git apply` takes. Binary files and files that are too large are named on
/// stderr instead. In a directory below the root only what lies below it is compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot diff 4b825dc6\n  \
                        turnstone snapshot diff 4b825dc6 a2f1 --stat")]
pub(crate) struct DiffArgs {
    /// The older tree or capture
    #[arg(value_name = "A")]
    before: String,

    /// The newer one [default: the files as they are now]
    #[arg(value_name = "B")]
    after: Option<String>,

    /// Say for each file how much changed
    #[arg(long)]
    stat: bool,

    /// Lines around each change
    #[arg(long, short = 'U', value_name = "N", default_value_t = 3)]
    context: usize,

    /// Everything, wherever you are
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &DiffArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let scope = site.scope().filter(|_| !args.whole).cloned();
    if let Some(scope) = &scope {
        site.tell_scope(ui, scope);
    }
    let options = DiffOptions { scope, context: args.context, ..DiffOptions::default() };
    let before = site.vault.find_capture(&args.before)?;
    let diff = match &args.after {
        Some(after) => site.vault.diff(&before, &site.vault.find_capture(after)?, &options)?,
        None => site.vault.diff_worktree(&before, &options)?,
    };
    if ui.wants_json() {
        ui.json(&json(&diff))?;
    } else if args.stat {
        print_stat(ui, &diff)?;
    } else {
        ui.raw(&diff.patch())?;
        tell_unshown(ui, &diff);
    }
    if let Some(reasons) = skipped(&diff.not_covered) {
        ui.aside(&format!("of some paths nothing can be said: {reasons}"));
    }
    site.close(app);
    Ok(Exit::Ok)
}

fn json(diff: &Diff) -> Value {
    let file = |file: &FileDiff| {
        let text = match &file.patch {
            Patch::Text(text) => Some(String::from_utf8_lossy(text)),
            Patch::Binary | Patch::TooLarge => None,
        };
        json!({
            "file": file.path,
            "status": file.status,
            "additions": file.additions,
            "deletions": file.deletions,
            "binary": file.patch == Patch::Binary,
            "too_large": file.patch == Patch::TooLarge,
            "patch": text,
        })
    };
    json!({
        "files": diff.files.iter().map(file).collect::<Vec<_>>(),
        "not_covered": skipped_json(&diff.not_covered),
    })
}

fn print_stat(ui: &mut Ui, diff: &Diff) -> Result<(), CliError> {
    let columns =
        [("", Column::Text), ("", Column::Figure), ("", Column::Figure), ("", Column::Text)];
    let mut grid = Grid::new(&columns);
    for file in &diff.files {
        let (plus, minus) = match file.patch {
            Patch::Text(_) => (format!("+{}", file.additions), format!("-{}", file.deletions)),
            Patch::Binary => ("binary".to_owned(), String::new()),
            Patch::TooLarge => ("large".to_owned(), String::new()),
        };
        grid.row(&[status(file.status).to_owned(), plus, minus, file.path.to_string()]);
    }
    ui.table(&grid)?;
    if diff.files.is_empty() {
        ui.note("no differences");
        return Ok(());
    }
    let sum = |count: fn(&FileDiff) -> usize| diff.files.iter().map(count).sum::<usize>();
    let files = figure::counted(diff.files.len(), "file");
    let plus = figure::counted(sum(|file| file.additions), "line");
    let minus = figure::counted(sum(|file| file.deletions), "line");
    ui.note(&format!("{files} changed, {plus} added, {minus} removed"));
    Ok(())
}

const fn status(status: Status) -> &'static str {
    match status {
        Status::Added => "added",
        Status::Modified => "modified",
        Status::Deleted => "deleted",
        Status::Type => "other type",
    }
}

/// Names the files the patch does not show.
fn tell_unshown(ui: &mut Ui, diff: &Diff) {
    for file in &diff.files {
        let what = match file.patch {
            Patch::Text(_) => continue,
            Patch::Binary => "binary",
            Patch::TooLarge => "too large to show",
        };
        ui.note(&format!("{} {}: {what}", status(file.status), file.path));
    }
    if diff.files.is_empty() {
        ui.note("no differences");
    }
}
