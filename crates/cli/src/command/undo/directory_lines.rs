//! Directories in the report of an undo: only those that no listed file implies.

use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{PathImage, RestorePlan, RestoreReport};

use crate::command::snapshot::print_kept_directories;
use crate::error::CliError;
use crate::text;
use crate::ui::{DIM_STYLE, SUCCESS_STYLE, Ui, apply_style};

/// Prints directories that were created, removed or changed, unless a file that is listed says so, and
/// those that stay because they hold other files.
pub(super) fn print_directories(
    ui: &mut Ui,
    report: &RestoreReport,
    plan: &RestorePlan,
    dry_run: bool,
) -> Result<(), CliError> {
    for path in listed_directories(report) {
        let step = plan.steps.iter().find(|step| step.path == *path);
        let images = step.map(|step| (step.expected, step.target));
        let (done, planned, note) = match images {
            Some((_, PathImage::Absent)) => ("removed", "remove", ""),
            Some((PathImage::Directory { .. }, _)) => ("restored", "restore", "  (permissions)"),
            _ => ("restored", "restore", ""),
        };
        let verb =
            apply_style(SUCCESS_STYLE, format!("{:<9}", if dry_run { planned } else { done }));
        let path = text::sanitize_line(&path.to_string());
        ui.print_line(&format!("{verb}  {path}/{}", apply_style(DIM_STYLE, note)))?;
    }
    print_kept_directories(ui, report)
}

/// The directories that are worth a line: no file below them is listed.
pub(super) fn listed_directories(report: &RestoreReport) -> impl Iterator<Item = &RelPath> {
    let RestoreReport { restored, removed, merged, directories, .. } = report;
    directories.iter().filter(move |path| {
        let mut files = restored.iter().chain(removed).chain(merged);
        !files.any(|file| path.is_ancestor_of(file))
    })
}
