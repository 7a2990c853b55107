//! Plans and reports of restores: the same words for what would happen and for what did.

use serde_json::{Value, json};
use turnstone_snapshot::{Conflict, OperationId, Plan, Report, State, Step};

use super::track::skipped_json;
use super::words;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::text;
use crate::ui::{BAD, DIM, GOOD, Ui, WARN, paint};

/// What a plan would come to if nothing changes meanwhile.
pub(crate) fn foreseen(plan: &Plan) -> Report {
    let paths = |wanted: fn(&Step) -> bool| {
        let steps = plan.steps.iter().filter(|step| wanted(step));
        steps.map(|step| step.path.clone()).collect()
    };
    Report {
        restored: paths(|step| step.target != State::Absent && !step.merged),
        removed: paths(|step| step.target == State::Absent),
        merged: paths(|step| step.merged),
        conflicts: plan.conflicts.clone(),
        unchanged: plan.unchanged.len(),
        not_covered: plan.not_covered.clone(),
        ..Report::default()
    }
}

/// Prints what was done, or would be.
pub(super) fn print(
    ui: &mut Ui,
    report: &Report,
    operation: Option<&OperationId>,
    dry_run: bool,
) -> Result<Exit, CliError> {
    if ui.wants_json() {
        ui.json(&json(report, operation, dry_run)?)?;
        return Ok(exit(report));
    }
    for (done, planned, paths) in [
        ("restored", "restore", &report.restored),
        ("removed", "remove", &report.removed),
        ("merged", "merge", &report.merged),
    ] {
        let words = if dry_run { planned } else { done };
        for path in paths {
            let path = text::clean_line(&path.to_string());
            ui.line(&format!("{}  {path}", paint(GOOD, format!("{words:<8}"))))?;
        }
    }
    for Conflict { path, why } in &report.conflicts {
        let path = text::clean_line(&path.to_string());
        let why = paint(DIM, format!("({})", words::why(*why)));
        ui.line(&format!("{}  {path}  {why}", paint(BAD, "conflict")))?;
    }
    for (path, reason) in &report.not_covered {
        let path = text::clean_line(&path.to_string());
        let why = paint(DIM, format!("({})", words::reason(*reason)));
        ui.line(&format!("{}  {path}  {why}", paint(WARN, "no cover")))?;
    }
    tell(ui, report, dry_run);
    Ok(exit(report))
}

/// A file that was left alone is told by the exit code.
fn exit(report: &Report) -> Exit {
    if report.conflicts.is_empty() { Exit::Ok } else { Exit::Conflict }
}

fn tell(ui: &mut Ui, report: &Report, dry_run: bool) {
    let counts = [
        (report.restored.len(), "restored", "to restore"),
        (report.removed.len(), "removed", "to remove"),
        (report.merged.len(), "merged", "to merge"),
        (report.conflicts.len(), "left alone", "to leave alone"),
        (report.not_covered.len(), "not covered", "not covered"),
    ];
    let list: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, done, planned)| {
            format!("{} {}", figure::count(*count), if dry_run { planned } else { done })
        })
        .collect();
    let done = counts[..3].iter().any(|(count, ..)| *count > 0);
    let all = list.join(", ");
    match (list.is_empty(), dry_run) {
        (true, _) => ui.note("nothing to do: the files are as they should be"),
        (false, true) => ui.note(&format!("{all}; nothing was changed")),
        (false, false) => ui.note(&all),
    }
    if !report.in_place.is_empty() {
        let count = figure::counted(report.in_place.len(), "file");
        ui.aside(&format!("{count} written in place, to keep owner, attributes or second names"));
    }
    if done && !dry_run {
        ui.hint("`turnstone snapshot undo` takes it back");
    }
}

fn json(
    report: &Report,
    operation: Option<&OperationId>,
    dry_run: bool,
) -> Result<Value, CliError> {
    Ok(json!({
        "restored": report.restored,
        "removed": report.removed,
        "merged": report.merged,
        "conflicts": report.conflicts,
        "unchanged": report.unchanged,
        "not_covered": skipped_json(&report.not_covered),
        "in_place": report.in_place,
        "guard": report.guard,
        "operation": operation,
        "dry_run": dry_run,
    }))
}
