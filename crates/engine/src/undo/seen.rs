//! The history of one path, out of what change sets saw of it.

use turnstone_core::change::{FileChange, FileImage};
use turnstone_core::time::Cursor;
use turnstone_store::ChangeRow;

/// What one change set saw of a path, and between which places in the log.
pub(super) struct Seen {
    opened: Cursor,
    closed: Option<Cursor>,
    before: FileImage,
    after: FileImage,
}

impl Seen {
    pub(super) fn new(row: &ChangeRow, change: &FileChange) -> Self {
        let FileChange { before, after, .. } = change.clone();
        Self { opened: row.opened, closed: row.closed, before, after }
    }
}

/// The history of a path, oldest first. What was seen by several at the same time is one change:
/// from what the first found to what the last one left.
pub(super) fn history(mut seen: Vec<Seen>) -> Vec<(FileImage, FileImage)> {
    seen.sort_by_key(|one| one.opened);
    let mut joined: Vec<Seen> = Vec::new();
    for one in seen {
        match joined.last_mut() {
            Some(last) if Some(one.opened) < last.closed => {
                if one.closed > last.closed {
                    (last.closed, last.after) = (one.closed, one.after);
                }
            }
            _ => joined.push(one),
        }
    }
    joined.into_iter().map(|one| (one.before, one.after)).collect()
}
