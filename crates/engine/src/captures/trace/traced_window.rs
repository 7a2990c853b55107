//! The changes of a traced command: what the captures show, and whose the trace says it is (R2, R3).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_core::change::{
    BoundedPaths, FileChange, PathImage, PathTouch, TouchEffect, TraceReport, UncoveredReason,
    attribute_changes,
};
use turnstone_core::id::ChangeId;
use turnstone_core::rel_path::RelPath;
use turnstone_process::trace::{RemainingProcess, Touch, TraceGap, TraceGapReason, TraceLog};
use turnstone_snapshot::{Capture, SnapshotHandle};

use super::TraceFiles;
use super::path_aliases::PathAliases;
use super::touch_paths::RootPaths;

/// Where the kernel names this run of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// So many programs that ran without their rights are named.
const MAX_NAMED_PROGRAMS: usize = 10;

/// Whether a call is traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallTrace {
    /// Nothing asked for it.
    #[default]
    NotRequested,
    /// It was asked for; the file has what became of it.
    Requested,
    /// It was asked for and is impossible: why.
    Unavailable(String),
}

/// The window of a call whose trace is to be read.
pub(crate) struct TracedWindow<'c> {
    pub(crate) change: &'c ChangeId,
    pub(crate) handle: &'c SnapshotHandle,
    /// The path of the root when the window was opened; it may have moved since.
    pub(crate) opened_root: &'c str,
    /// When the capture before the call began, in nanoseconds.
    pub(crate) captured_from: Option<i64>,
    pub(crate) before: &'c Capture,
    /// The capture after it; nothing if not everything fitted.
    pub(crate) after: Option<&'c Capture>,
}

/// The changes of a call, and what its trace tells besides.
pub(crate) struct AttributedChanges {
    /// True if the changes are those that the trace saw; otherwise all that were seen.
    pub(crate) is_traced: bool,
    /// True if processes of the call went on when it had ended, and are still traced.
    pub(crate) has_remaining: bool,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) report: TraceReport,
}

impl AttributedChanges {
    /// Changes of a call that nobody traced.
    pub(crate) fn without_trace(changes: Vec<FileChange>) -> Self {
        Self { is_traced: false, has_remaining: false, changes, report: TraceReport::default() }
    }

    /// Changes of which nobody can say whose they are, and why.
    pub(crate) fn untraced(changes: Vec<FileChange>, why: String) -> Self {
        let report = TraceReport { untraced: Some(why), ..TraceReport::default() };
        Self { is_traced: false, has_remaining: false, changes, report }
    }
}

impl TraceFiles {
    /// True if a trace of a call was begun.
    pub(crate) fn exists(&self, change: &ChangeId) -> bool {
        self.path(change).exists()
    }

    /// Finds out which of the changes in a window the traced call made. If its trace proves nothing, all are its
    /// own as far as anyone knows, and the report says why.
    pub(crate) fn attribute(
        &self,
        window: &TracedWindow<'_>,
        changes: Vec<FileChange>,
    ) -> AttributedChanges {
        let log = match TraceLog::read(self.path(window.change)) {
            Ok(log) => log,
            Err(error) => return AttributedChanges::untraced(changes, error.to_string()),
        };
        let Some(opened) = window.captured_from else {
            return AttributedChanges::untraced(changes, "its beginning is not known".to_owned());
        };
        if let Some(why) = find_defect(&log) {
            let mut found = AttributedChanges::untraced(changes, why);
            found.report.restricted_programs = list_restricted_programs(&log);
            return found;
        }
        let mut found = attribute_touched(window, opened, changes, &log.touches);
        found.has_remaining = !log.ended && !log.remaining.is_empty();
        found.report.still_open = BoundedPaths::new(list_still_open(&root_paths(window), &log));
        found.report.restricted_programs = list_restricted_programs(&log);
        let name = |process: &RemainingProcess| format!("{} ({})", process.name, process.pid);
        found.report.remaining = log.remaining.iter().map(name).collect();
        found
    }
}

/// Where the root of a window is, and was.
pub(super) fn root_paths(window: &TracedWindow<'_>) -> RootPaths {
    let root = window.handle.location().root.clone();
    RootPaths { paths: vec![PathBuf::from(window.opened_root), root] }
}

/// Decides by touches which of the changes in a window are those of the processes that made them.
pub(super) fn attribute_touched(
    window: &TracedWindow<'_>,
    opened: i64,
    changes: Vec<FileChange>,
    touches: &[Touch],
) -> AttributedChanges {
    let touches =
        map_touches(&root_paths(window), &window.handle.location().root, &changes, touches);
    let before = |path: &RelPath| {
        let unknown = PathImage::Uncovered { reason: UncoveredReason::Unreadable };
        window.handle.reader().path_image(window.before, path).unwrap_or(unknown)
    };
    let (unreadable, uncovered) = list_uncovered(window, &touches, &changes);
    let mut found = attribute_changes(changes, &touches, opened, before);
    // That a file changed which nobody could read is known from the trace alone.
    let unknown = PathImage::Uncovered { reason: UncoveredReason::Unreadable };
    let change = |path| FileChange { path, before: unknown, after: unknown };
    found.own.extend(unreadable.into_iter().map(change));
    found.own.sort_by(|one, other| one.path.cmp(&other.path));
    let report = TraceReport {
        others: BoundedPaths::new(found.others),
        shared: found.shared.into_iter().collect(),
        uncovered: BoundedPaths::new(uncovered),
        ..TraceReport::default()
    };
    AttributedChanges { is_traced: true, has_remaining: false, changes: found.own, report }
}

/// Why a trace proves nothing, if it does not.
pub(super) fn find_defect(log: &TraceLog) -> Option<String> {
    let boot = fs_err::read_to_string(BOOT_ID).unwrap_or_default();
    if log.boot_id.is_empty() || log.boot_id != boot.trim() {
        return Some("the machine was restarted since".to_owned());
    }
    let gap: &TraceGap = log.hiding_gaps().next()?;
    let place = gap.path.as_ref().map(|path| format!(" ({})", path.display()));
    Some(format!("{}{}", gap.reason, place.unwrap_or_default()))
}

/// The touches below the root, by the names of its paths.
fn map_touches(
    roots: &RootPaths,
    root: &Path,
    changes: &[FileChange],
    touches: &[Touch],
) -> Vec<PathTouch> {
    let named = roots.map(touches, &PathAliases::default());
    let touched: BTreeSet<&RelPath> = named.iter().map(|touch| &touch.path).collect();
    let unexplained: Vec<&FileChange> =
        changes.iter().filter(|change| !touched.contains(&change.path)).collect();
    if unexplained.is_empty() {
        return named;
    }
    roots.map(touches, &PathAliases::find(root, &unexplained, touches))
}

/// The paths that captures skip and at or below which the command wrote, apart from `changes`: those that could
/// not be read, and all others.
fn list_uncovered(
    window: &TracedWindow<'_>,
    touches: &[PathTouch],
    changes: &[FileChange],
) -> (Vec<RelPath>, Vec<RelPath>) {
    let captures = [Some(window.before), window.after].into_iter().flatten();
    let all: Vec<&(RelPath, UncoveredReason)> = captures
        .flat_map(|capture| &capture.coverage.skipped)
        .filter(|(_, reason)| *reason != UncoveredReason::OwnData)
        .collect();
    let skipped: BTreeSet<&RelPath> = all.iter().map(|(path, _)| path).collect();
    let closed: BTreeSet<&RelPath> = all
        .iter()
        .filter(|(_, reason)| *reason == UncoveredReason::Unreadable)
        .map(|(path, _)| path)
        .collect();
    let known: BTreeSet<&RelPath> = changes.iter().map(|change| &change.path).collect();
    let mut found = BTreeSet::new();
    for touch in touches.iter().filter(|touch| touch.effect != TouchEffect::TouchedBelow) {
        let all = [touch.path.clone()].into_iter().chain(touch.path.ancestors());
        found.extend(all.filter(|path| skipped.contains(path) && !known.contains(path)));
    }
    found.into_iter().partition(|path| closed.contains(path))
}

/// The files of the root that processes which live on have open for writing.
pub(super) fn list_still_open(roots: &RootPaths, log: &TraceLog) -> Vec<RelPath> {
    let files = log.remaining.iter().filter_map(|process| process.open_for_writing.as_ref());
    let found: BTreeSet<RelPath> = files.flatten().filter_map(|path| roots.named(path)).collect();
    found.into_iter().collect()
}

fn list_restricted_programs(log: &TraceLog) -> Vec<String> {
    let restricted = log.gaps.iter().filter(|gap| gap.reason == TraceGapReason::SetUidProgram);
    let name = |gap: &TraceGap| {
        let path = gap.path.as_ref();
        path.map_or_else(|| "a program".to_owned(), |path| path.to_string_lossy().into_owned())
    };
    let names: BTreeSet<String> = restricted.map(name).collect();
    names.into_iter().take(MAX_NAMED_PROGRAMS).collect()
}
