//! A worktree as an agent's session uses it: track, patch, revert.

use std::collections::BTreeMap;
use std::path::Path;

use turnstone_snapshot::{
    Capture, CaptureDiff, DiffOptions, PinGroup, RestoreReport, SnapshotStore, TargetState,
};

use crate::support::{NOW, StoreFixture};

/// OpenCode's fixture: a repository with `a.txt` and `b.txt`, both untracked.
pub(crate) fn bootstrap() -> StoreFixture {
    let case = StoreFixture::in_memory();
    case.git_in(&case.root(), &["init", "-q"]);
    case.write("a.txt", "A content");
    case.write("b.txt", "B content");
    case
}

/// `track`: a capture.
pub(crate) fn track(store: &SnapshotStore) -> Capture {
    store.capture(&PinGroup::new("session"), NOW).expect("captured").capture
}

/// `patch`: the paths that differ from a capture now.
pub(crate) fn patch(case: &StoreFixture, from: &Capture) -> Vec<String> {
    paths(&diff(case, from))
}

pub(crate) fn diff(case: &StoreFixture, from: &Capture) -> CaptureDiff {
    case.store.diffs().with_worktree(from, &DiffOptions::default()).expect("compared")
}

pub(crate) fn paths(diff: &CaptureDiff) -> Vec<String> {
    diff.files.iter().map(|file| file.path.to_string()).collect()
}

/// What undoes everything that happened between two captures.
pub(crate) fn target_states(
    store: &SnapshotStore,
    before: &Capture,
    after: &Capture,
) -> Vec<TargetState> {
    let changes = store.captures().list_changes(before, after).expect("compared");
    let covered = changes.into_iter().filter(|change| change.is_covered());
    covered.map(|it| TargetState::new(it.path, Some(it.after), it.before)).collect()
}

/// `revert`: undoes what happened since a capture.
pub(crate) fn revert(store: &SnapshotStore, before: &Capture) -> RestoreReport {
    let after = track(store);
    undo_changes(store, before, &after)
}

/// Undoes what happened between two captures, and keeps what happened since.
pub(crate) fn undo_changes(
    store: &SnapshotStore,
    before: &Capture,
    after: &Capture,
) -> RestoreReport {
    let plan = store.planner().plan_targets(&target_states(store, before, after)).expect("planned");
    store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).expect("applied")
}

/// The files and links of a worktree, and its empty directories.
pub(crate) fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs_err::read_dir(root).expect("listed") {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        if path.is_symlink() {
            let target = fs_err::read_link(&path).expect("a link").display().to_string();
            found.insert(name, target.into_bytes());
        } else if path.is_dir() {
            found.insert(format!("{name}/"), Vec::new());
            let below = contents(&path).into_iter();
            found.extend(below.map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.insert(name, fs_err::read(&path).expect("read"));
        }
    }
    found
}
