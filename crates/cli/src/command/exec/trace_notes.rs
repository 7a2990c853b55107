//! Notes about the trace of a command that has ended.

use turnstone_core::change::{BoundedPaths, TraceReport};
use turnstone_engine::ClosedCall;

use crate::text;
use crate::trace_text::{count_foreign_changes, list_paths, list_programs};
use crate::ui::{Ui, WARNING_STYLE, apply_style};

/// Prints what a person should know before an undo of the command.
pub(super) fn print_trace_notes(ui: &mut Ui, closed: Option<&ClosedCall>) {
    let Some(closed) = closed else { return };
    let Some(report) = &closed.trace else { return };
    let mark = apply_style(WARNING_STYLE, "turnstone:");
    if !report.shared.is_empty() {
        let paths = BoundedPaths::new(report.shared.clone());
        let paths = list_paths(&paths);
        ui.print_note(&format!(
            "{mark} also changed by others during this command: {paths}; undo leaves these files alone"
        ));
    }
    if !report.remaining.is_empty() {
        let programs = list_programs(&report.remaining);
        let later = match closed.continuation {
            Some(_) => "what they write from now on is recorded with this turn once they end",
            None => "later changes cannot be undone with this turn",
        };
        ui.print_note(&format!("{mark} left running: {programs}; {later}"));
    }
    if !report.still_open.is_empty() {
        let paths = list_paths(&report.still_open);
        ui.print_note(&format!("{mark} still open for writing: {paths}"));
    }
    for program in &report.restricted_programs {
        let program = text::sanitize_line(program);
        ui.print_note(&format!("{mark} {program} had no special rights in a traced command"));
        ui.print_hint("`turnstone exec --no-trace -- COMMAND` runs it with them");
    }
    print_attribution(ui, report);
}

/// Prints on a terminal whose the changes are; a script gets it from `turnstone log --json`.
fn print_attribution(ui: &mut Ui, report: &TraceReport) {
    if !ui.is_stderr_terminal() {
        return;
    }
    if let Some(why) = &report.untraced {
        let why = text::sanitize_line(why);
        ui.print_dim_note(&format!(
            "turnstone: not traced, so changes by others count as this command's: {why}"
        ));
    }
    if !report.others.is_empty() {
        let files = count_foreign_changes(report.others.count());
        ui.print_dim_note(&format!("turnstone: {files} left alone"));
    }
}
