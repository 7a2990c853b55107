//! Prints plans and reports of restores in the same format.

use serde_json::{Value, json};
use turnstone_snapshot::{
    PathImage, RestoreConflict, RestoreOperationId, RestorePlan, RestoreReport, RestoreStep,
    UncoveredReason,
};

use super::messages;
use super::track::skipped_json;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::ui::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style};

/// The report of a plan if no file changes meanwhile.
pub(crate) fn predict_report(plan: &RestorePlan) -> RestoreReport {
    let paths = |wanted: &dyn Fn(&RestoreStep) -> bool| {
        let steps = plan.steps.iter().filter(|step| wanted(step));
        steps.map(|step| step.path.clone()).collect()
    };
    let is_file = |image: &PathImage| image.leaf().is_some();
    RestoreReport {
        restored: paths(&|step| is_file(&step.target) && !step.merged),
        removed: paths(&|step| is_file(&step.expected) && !is_file(&step.target)),
        merged: paths(&|step| step.merged),
        directories: paths(&|step| !is_file(&step.expected) && !is_file(&step.target)),
        kept_directories: plan.kept_directories.clone(),
        conflicts: plan.conflicts.clone(),
        unchanged: plan.unchanged.len(),
        not_covered: plan.not_covered.clone(),
        ..RestoreReport::default()
    }
}

/// Prints a report, with the command that reverses the operation, or a prediction.
pub(super) fn print_report(
    ui: &mut Ui,
    report: &RestoreReport,
    operation: Option<&RestoreOperationId>,
    reverse: Option<&str>,
) -> Result<ProgramExit, CliError> {
    let dry_run = reverse.is_none();
    if ui.wants_json() {
        ui.print_json(&report_json(report, operation, dry_run)?)?;
        return Ok(exit_for_report(report));
    }
    for (done, planned, paths) in [
        ("restored", "restore", &report.restored),
        ("removed", "remove", &report.removed),
        ("merged", "merge", &report.merged),
    ] {
        let verb = if dry_run { planned } else { done };
        for path in paths {
            let path = text::sanitize_line(&path.to_string());
            ui.print_line(&format!(
                "{}  {path}",
                apply_style(SUCCESS_STYLE, format!("{verb:<8}"))
            ))?;
        }
    }
    print_kept_directories(ui, report)?;
    for RestoreConflict { path, why } in &report.conflicts {
        let path = text::sanitize_line(&path.to_string());
        let why = apply_style(DIM_STYLE, format!("({})", messages::describe_conflict(*why)));
        ui.print_line(&format!("{}  {path}  {why}", apply_style(ERROR_STYLE, "conflict")))?;
    }
    for (path, reason) in &report.not_covered {
        let path = text::sanitize_line(&path.to_string());
        let why = apply_style(DIM_STYLE, format!("({})", messages::describe_skip_reason(*reason)));
        ui.print_line(&format!("{}  {path}  {why}", apply_style(WARNING_STYLE, "skipped ")))?;
    }
    print_totals(ui, report, reverse);
    Ok(exit_for_report(report))
}

/// Prints directories that were to be removed and stay.
pub(crate) fn print_kept_directories(ui: &mut Ui, report: &RestoreReport) -> Result<(), CliError> {
    for path in &report.kept_directories {
        let path = text::sanitize_line(&path.to_string());
        let why = apply_style(DIM_STYLE, "(it holds other files)");
        ui.print_line(&format!("{}  {path}/  {why}", apply_style(WARNING_STYLE, "kept     ")))?;
    }
    Ok(())
}

/// Files that stay although the capture has others change the exit code.
fn exit_for_report(report: &RestoreReport) -> ProgramExit {
    let is_missing = report.not_covered.iter().any(|(_, why)| *why == UncoveredReason::Missing);
    match report.conflicts.is_empty() && !is_missing {
        true => ProgramExit::Ok,
        false => ProgramExit::Conflict,
    }
}

fn print_totals(ui: &mut Ui, report: &RestoreReport, reverse: Option<&str>) {
    let dry_run = reverse.is_none();
    let counts = [
        (report.restored.len(), "restored", "to restore"),
        (report.removed.len(), "removed", "to remove"),
        (report.merged.len(), "merged", "to merge"),
        (report.conflicts.len(), "in conflict", "in conflict"),
        (report.not_covered.len(), "skipped", "skipped"),
    ];
    let list: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, done, planned)| {
            let what = if dry_run { planned } else { done };
            format!("{} {what}", number_format::format_counted(*count, "file"))
        })
        .collect();
    let done = counts[..3].iter().any(|(count, ..)| *count > 0);
    let all = list.join(", ");
    match (list.is_empty(), dry_run) {
        (true, _) => ui.print_note("nothing to restore"),
        (false, true) => ui.print_note(&format!("{all} (dry run: no file was changed)")),
        (false, false) => ui.print_note(&all),
    }
    if !report.in_place.is_empty() {
        let count = number_format::format_counted(report.in_place.len(), "file");
        ui.print_dim_note(&format!(
            "{count} written in place to keep owner, attributes or hard links"
        ));
    }
    if let Some(reverse) = reverse.filter(|_| done) {
        ui.print_hint(&format!("`turnstone snapshot {reverse}` reverses this"));
    }
}

fn report_json(
    report: &RestoreReport,
    operation: Option<&RestoreOperationId>,
    dry_run: bool,
) -> Result<Value, CliError> {
    Ok(json!({
        "restored": report.restored,
        "removed": report.removed,
        "merged": report.merged,
        "directories": report.directories,
        "kept_directories": report.kept_directories,
        "conflicts": report.conflicts,
        "unchanged": report.unchanged,
        "not_covered": skipped_json(&report.not_covered),
        "in_place": report.in_place,
        "guard": report.guard,
        "operation": operation,
        "dry_run": dry_run,
    }))
}
