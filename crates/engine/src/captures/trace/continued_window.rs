//! What processes changed that went on after their command: the window of the command continues, as a change set of
//! its own that stays open until the last of them has ended (R2).

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::{ffi::OsStr, io};

use turnstone_core::change::{BoundedPaths, FileChange, PathImage, UncoveredReason};
use turnstone_core::id::ChangeId;
use turnstone_core::rel_path::RelPath;
use turnstone_process::trace::{Touch, TouchKind, TouchParent, TouchTarget, TraceLog};
use turnstone_store::ChangeSetRow;

use super::TraceFiles;
use super::traced_window::{
    AttributedChanges, TracedWindow, attribute_touched, find_defect, list_still_open, root_paths,
};

impl TraceFiles {
    /// Has the trace of a command that ended count for the change set that continues its window. The processes that
    /// write it go on.
    pub(crate) fn continue_as(&self, ended: &ChangeId, next: &ChangeId) -> io::Result<()> {
        fs_err::rename(self.path(ended), self.path(next))
    }

    /// Tells whether processes still run whose changes a continued window is about.
    pub(crate) fn is_continued_window_running(&self, row: &ChangeSetRow) -> io::Result<bool> {
        let Some(ended) = &row.continues else { return Ok(false) };
        if !self.exists(&row.set.id) && self.exists(ended) {
            // The process that ended the command was killed before it renamed the trace.
            self.continue_as(ended, &row.set.id)?;
        }
        match TraceLog::is_being_written(self.path(&row.set.id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found,
        }
    }

    /// Finds out which changes since the end of a command the processes made that it had left running.
    ///
    /// Others may have written for hours: only what these processes touched counts, even if the trace may have
    /// a gap, and what has changed since they ended is shared with others.
    pub(crate) fn attribute_continued(
        &self,
        window: &TracedWindow<'_>,
        changes: Vec<FileChange>,
    ) -> AttributedChanges {
        let path = self.path(window.change);
        let log = match TraceLog::read(&path) {
            Ok(log) => log,
            Err(error) => return AttributedChanges::untraced(Vec::new(), error.to_string()),
        };
        let Some(opened) = window.captured_from else {
            let why = "its beginning is not known".to_owned();
            return AttributedChanges::untraced(Vec::new(), why);
        };
        let changes = with_own_open_files(window, &log, changes);
        let mut touches = list_open_files(&log);
        touches.extend_from_slice(log.touches_after_command());
        let mut found = attribute_touched(window, opened, changes, &touches);
        let ended = fs_err::metadata(&path).map_or(i64::MIN, |meta| nanoseconds(&meta, false));
        let root = &window.handle.location().root;
        let later = found.changes.iter().filter(|change| {
            let place = root.join(OsStr::from_bytes(change.path.as_bytes()));
            let meta = fs_err::symlink_metadata(place).ok().filter(|meta| !meta.is_dir());
            meta.is_some_and(|meta| nanoseconds(&meta, true) > ended)
        });
        let later: BTreeSet<RelPath> = later.map(|change| change.path.clone()).collect();
        let shared = found.report.shared.into_iter().chain(later);
        found.report.shared = shared.collect::<BTreeSet<_>>().into_iter().collect();
        // Everything that anyone changed since: no remark about these processes.
        found.report.others = BoundedPaths::default();
        let killed = (!log.ended).then(|| "the tracing processes were killed".to_owned());
        found.report.untraced = find_defect(&log).or(killed);
        found.is_traced = found.report.untraced.is_none();
        found
    }
}

/// The content at the end of the command of files that these processes themselves had open for writing: for a
/// capture, such a file may be one that a stranger is saving.
fn with_own_open_files(
    window: &TracedWindow<'_>,
    log: &TraceLog,
    mut changes: Vec<FileChange>,
) -> Vec<FileChange> {
    let own = list_still_open(&root_paths(window), log);
    let is_masked = |change: &&mut FileChange| {
        change.before == PathImage::Uncovered { reason: UncoveredReason::Changing }
            && own.binary_search(&change.path).is_ok()
    };
    for change in changes.iter_mut().filter(is_masked) {
        // What cannot be read stays unknown.
        if let Ok(before) = window.handle.reader().path_image(window.before, &change.path) {
            change.before = before;
        }
    }
    changes
}

/// The files that the processes had open when the command ended: to write these they need no further call.
fn list_open_files(log: &TraceLog) -> Vec<Touch> {
    let files = log.remaining.iter().filter_map(|process| process.open_for_writing.as_ref());
    // It was there, and since when it is so does not matter.
    let target = TouchTarget {
        device: 0,
        inode: 0,
        born: None,
        links: 1,
        is_directory: false,
        size: 0,
        modified: i64::MIN,
        changed: i64::MIN,
    };
    let touch = |path: &PathBuf| Touch {
        kind: TouchKind::OpenForWrite,
        path: path.clone(),
        parent: TouchParent { device: 0, inode: 0, born: None },
        target: Some(target),
        sequence: 0,
        time: 0,
    };
    files.flatten().map(touch).collect()
}

/// When a file was changed last: its inode, or its content.
fn nanoseconds(meta: &std::fs::Metadata, of_inode: bool) -> i64 {
    let (seconds, rest) = match of_inode {
        true => (meta.ctime(), meta.ctime_nsec()),
        false => (meta.mtime(), meta.mtime_nsec()),
    };
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
