//! `turnstone import --snapshots`: makes the file changes of imported turns undoable, and reports which are not.

use std::path::{Path, PathBuf};

use turnstone_engine::{Engine, EngineError, SnapshotAdoptionReport, UnadoptedStep};
use turnstone_exchange::ImportReport;
use turnstone_store::{Context, StoreError};

use crate::error::CliError;
use crate::number_format::format_counted;
use crate::text;
use crate::ui::{DIM_STYLE, Ui, WARNING_STYLE, apply_style};

/// Files named per step.
const MAX_NAMED_FILES: usize = 3;

/// Where OpenCode's snapshots are.
pub(super) struct SnapshotImport {
    folder: PathBuf,
}

impl SnapshotImport {
    /// Finds OpenCode's snapshots next to what is imported; those of an exported file are in a usual place.
    pub(super) fn new(source: &Path, usual_places: &[PathBuf]) -> Self {
        let is_database = source.extension().is_some_and(|it| it == "db");
        let is_data = source.is_dir() || is_database;
        let siblings = is_data.then(|| source.ancestors().take(2).map(Path::to_owned));
        let places = siblings.into_iter().flatten().chain(usual_places.iter().cloned());
        let mut folders = places.map(|place| place.join("snapshot"));
        let folder = folders.find(|folder| folder.is_dir());
        Self { folder: folder.unwrap_or_else(|| source.join("snapshot")) }
    }

    /// Copies the snapshots of the imported sessions.
    ///
    /// # Errors
    ///
    /// The database or a snapshot store failed.
    pub(super) fn adopt(
        &self,
        ui: &Ui,
        engine: &Engine,
        ctx: &Context,
        report: &ImportReport,
    ) -> Result<SnapshotAdoptionReport, CliError> {
        let sessions = engine.history().imported_sessions();
        let mut adopted = SnapshotAdoptionReport::default();
        let bar = ui.progress_bar("{bar:30} {pos}/{len} snapshots ({eta})");
        bar.set_length(report.sessions.len() as u64);
        for session in &report.sessions {
            match sessions.adopt_snapshots(ctx, session, &self.folder) {
                Ok(found) => adopted.merge(found),
                // It was deleted or is used here meanwhile.
                Err(EngineError::Store(StoreError::Busy(_) | StoreError::NoSession(_))) => {}
                Err(error) => return Err(error.into()),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        for session in &report.changed_sessions {
            adopted.merge(sessions.list_unadopted(ctx, session)?);
        }
        Ok(adopted)
    }
}

/// Prints what can be undone now and what cannot.
pub(super) fn print_adopted(ui: &mut Ui, adopted: &SnapshotAdoptionReport, listed: usize) {
    let SnapshotAdoptionReport { steps, files, not_covered, unchanged, left_out } = adopted;
    let mut line = format!(
        "{} with {} can be undone",
        format_counted(*steps, "imported step"),
        format_counted(*files, "changed file")
    );
    if *not_covered > 0 {
        line.push_str(&format!(", except {}", format_counted(*not_covered, "file")));
    }
    if *unchanged > 0 {
        line.push_str(&format!("; {} already", format_counted(*unchanged, "step")));
    }
    ui.print_note(&line);
    let warning = apply_style(WARNING_STYLE, "not covered:");
    for UnadoptedStep { session, files, reason, .. } in left_out.iter().take(listed) {
        let more = files.len().saturating_sub(MAX_NAMED_FILES);
        let mut names = files.iter().take(MAX_NAMED_FILES).cloned().collect::<Vec<_>>().join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        let line = text::sanitize_line(&format!("{names} of {session}: {reason}"));
        ui.print_note(&format!("{warning} {line}"));
    }
    let more = left_out.len().saturating_sub(listed);
    if more > 0 {
        let line = format!("{more} more not covered (--full lists them)");
        ui.print_note(&apply_style(DIM_STYLE, line));
    }
}
