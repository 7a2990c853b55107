//! What a tool call changed, as the transcript shows it below the call.

use serde::Serialize;
use turnstone_core::change::{Evidence, FileChange, PathImage, TraceReport};
use turnstone_core::id::{PartId, TurnId};
use turnstone_core::rel_path::RelPath;
use turnstone_store::ChangeSetRow;

use super::transcript_lines::TranscriptDetail;
use crate::number_format;
use crate::text::sanitize_line;
use crate::trace_text::trace_lines;
use crate::ui::{DIM_STYLE, WARNING_STYLE, apply_style};

/// Files that the brief view names.
const MAX_NAMED_FILES: usize = 5;

/// What one call changed in one root.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CallChanges {
    /// The call.
    pub(crate) part: Option<PartId>,
    turn: TurnId,
    /// The directory that the paths are below.
    root: String,
    evidence: Evidence,
    /// True if processes made the changes that went on after the call.
    afterwards: bool,
    files: Vec<CallFileChange>,
    /// Number of changed paths without recorded content.
    not_covered: u64,
    /// What the trace of the call tells; nothing if it was not to be traced.
    trace: Option<TraceReport>,
}

/// A file that a call changed.
#[derive(Clone, Debug, Serialize)]
struct CallFileChange {
    path: RelPath,
    /// See [`status_letter`].
    status: char,
}

impl CallChanges {
    /// What a change set holds; nothing as long as its call runs.
    pub(crate) fn from_row(row: ChangeSetRow) -> Option<Self> {
        row.closed?;
        let files = row.set.changes.iter().filter(|change| !change.is_directory_only());
        let file = |change: &FileChange| CallFileChange {
            path: change.path.clone(),
            status: status_letter(change),
        };
        Some(Self {
            files: files.map(file).collect(),
            part: row.set.part,
            turn: row.set.turn,
            root: row.set.root.path,
            evidence: row.set.evidence,
            afterwards: row.continues.is_some(),
            not_covered: row.not_covered,
            trace: row.set.trace,
        })
    }

    /// The lines below the call.
    pub(super) fn lines(&self, detail: TranscriptDetail) -> Vec<String> {
        let mut lines = Vec::new();
        let dim = |text: String| apply_style(DIM_STYLE, format!("    {text}"));
        if !self.files.is_empty() {
            let count = number_format::format_counted(self.files.len(), "file");
            let names = self.names(detail);
            let when =
                if self.afterwards { " afterwards by processes it left running" } else { "" };
            let evidence = self.evidence.as_str();
            lines.push(dim(format!("± {count} changed{when} ({evidence}): {names}")));
        }
        if self.not_covered > 0 {
            let count = number_format::format_counted(self.not_covered, "path");
            let text = format!("    {count} not recorded: cannot be undone");
            lines.push(apply_style(WARNING_STYLE, text));
        }
        lines.extend(self.trace.iter().flat_map(trace_lines).map(dim));
        lines
    }

    fn names(&self, detail: TranscriptDetail) -> String {
        let shown = match detail {
            TranscriptDetail::Full => usize::MAX,
            TranscriptDetail::Brief => MAX_NAMED_FILES,
        };
        let name = |file: &CallFileChange| {
            format!("{} {}", file.status, sanitize_line(&file.path.to_string()))
        };
        let mut names: Vec<String> = self.files.iter().take(shown).map(name).collect();
        if self.files.len() > names.len() {
            let more = number_format::format_count(self.files.len() - names.len());
            names.push(format!("and {more} more"));
        }
        names.join(", ")
    }
}

/// What happened to a file: `A`, `M`, `D`, or `?` if it is not known before or after.
pub(crate) const fn status_letter(change: &FileChange) -> char {
    match (&change.before, &change.after) {
        (PathImage::Uncovered { .. }, _) | (_, PathImage::Uncovered { .. }) => '?',
        (PathImage::Absent | PathImage::Directory { .. }, _) => 'A',
        (_, PathImage::Absent | PathImage::Directory { .. }) => 'D',
        _ => 'M',
    }
}
