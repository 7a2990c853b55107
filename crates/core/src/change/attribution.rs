//! Attribution: which of the changes between two captures a traced command made (R2, R3).
//!
//! The captures say what changed, the touches of the command say where it wrote. A change that it did not
//! touch is another writer's; one that both wrote is shared.

use std::collections::{BTreeMap, BTreeSet};

use super::touch_history::{PathActs, Relocated, TouchHistory};
use super::{FileChange, FileMode, PathImage, PathTouch};
use crate::rel_path::RelPath;

/// The changes in the window of a traced command, by who made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// What the command changed, sorted by path.
    pub own: Vec<FileChange>,
    /// Paths of `own` that somebody else changed in the same window, too.
    pub shared: BTreeSet<RelPath>,
    /// Paths that only others changed, sorted.
    pub others: Vec<RelPath>,
}

/// Decides which of the changes in a window a traced command made.
///
/// `touches` are in the order in which they happened. `opened_nanos` is when the capture before the
/// command began. `before` returns what that capture holds at a path; it is asked only about paths that
/// are not among the changes.
#[must_use]
pub fn attribute_changes(
    changes: Vec<FileChange>,
    touches: &[PathTouch],
    opened_nanos: i64,
    before: impl Fn(&RelPath) -> PathImage,
) -> Attribution {
    let mut history = TouchHistory::default();
    for touch in touches {
        history.record(touch, opened_nanos);
    }
    let images: BTreeMap<RelPath, (PathImage, PathImage)> =
        changes.iter().map(|change| (change.path.clone(), (change.before, change.after))).collect();
    let unchanged = |path: &RelPath| {
        let image = before(path);
        (image, image)
    };
    let images = |path: &RelPath| images.get(path).copied().unwrap_or_else(|| unchanged(path));
    let mut found = Attribution::default();
    for change in changes {
        match find_writer(&history, &change, &images) {
            Writer::Command => found.own.push(change),
            Writer::Both => {
                found.shared.insert(change.path.clone());
                found.own.push(change);
            }
            Writer::Others => found.others.push(change.path),
        }
    }
    found
}

/// Who made a change.
enum Writer {
    Command,
    Both,
    Others,
}

/// `images` are those before and after the command.
fn find_writer(
    history: &TouchHistory,
    change: &FileChange,
    images: &impl Fn(&RelPath) -> (PathImage, PathImage),
) -> Writer {
    let path = &change.path;
    if !change.is_covered() {
        // Such a path stands for everything below it, and an undo never writes it.
        return if history.is_touched_within(path) { Writer::Command } else { Writer::Others };
    }
    let acts = history.acts(path);
    let has_new_metadata = acts.is_some_and(|acts| acts.has(PathActs::METADATA_SET));
    let was_moved_here = match history.find_origin(path) {
        Relocated::Outside => true,
        Relocated::Moved(from) => {
            let image = images(&from).0;
            let is_same =
                image == change.after || has_new_metadata && is_same_content(&image, &change.after);
            is_same && image != PathImage::Absent
        }
        Relocated::Unmoved => false,
    };
    if let Some(acts) = acts {
        let is_shared = acts.has(PathActs::SHARED)
            || acts.has(PathActs::SHARED_ARRIVAL) && change.after != PathImage::Absent;
        let is_explained = was_moved_here || can_explain(acts, history.is_replaced(path), change);
        return if is_explained && !is_shared { Writer::Command } else { Writer::Both };
    }
    if was_moved_here {
        return Writer::Command;
    }
    if change.after == PathImage::Absent && history.is_replaced(path) {
        return match history.find_destination(path) {
            // It did not arrive, and the command did not remove it.
            Relocated::Moved(to)
                if images(&to).1 == PathImage::Absent && !history.is_touched_since_arrival(&to) =>
            {
                Writer::Others
            }
            Relocated::Unmoved => Writer::Others,
            Relocated::Moved(_) | Relocated::Outside => Writer::Command,
        };
    }
    // What the command moved away may have a successor that it did not write.
    let has_successor = change.before != PathImage::Absent && history.is_vacated(path);
    if has_successor { Writer::Both } else { Writer::Others }
}

/// True if what a command did to a path can have led from the one image to the other, so that no other writer
/// is needed.
fn can_explain(acts: PathActs, is_replaced: bool, change: &FileChange) -> bool {
    let FileChange { before, after, .. } = change;
    if acts.has(PathActs::FOUND_ABSENT) && *before != PathImage::Absent {
        // Somebody else had removed it.
        return false;
    }
    if *after == PathImage::Absent {
        return acts.has(PathActs::REMOVED) || is_replaced;
    }
    acts.has(PathActs::WRITTEN)
        || acts.has(PathActs::METADATA_SET) && is_same_content(before, after)
}

/// True if two images differ at most in their permission bits, of which one makes a file executable.
fn is_same_content(one: &PathImage, other: &PathImage) -> bool {
    let content =
        |image: &PathImage| image.leaf().map(|leaf| (leaf.blob, leaf.mode == FileMode::Link));
    content(one) == content(other) && one.is_directory() == other.is_directory()
}
