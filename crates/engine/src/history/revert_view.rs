//! What clients of OpenCode see of a head: derived, never read back to decide anything (R21).

use std::collections::BTreeSet;

use turnstone_core::change::ChangeRoot;
use turnstone_core::id::SessionId;
use turnstone_core::model::{ExtraFields, RevertState};
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{DiffOptions, PatchBody, SnapshotError};
use turnstone_store::Context;

use crate::error::{EngineError, Result};
use crate::history::historical_state::operations_since_tip;
use crate::history::revert::Reverts;
use crate::history::undo::{RootReport, decode_report, written_paths};

/// A longer difference is cut.
const MAX_DIFF_BYTES: usize = 1 << 20;

const CUT_NOTICE: &str = "\n[the rest of the difference is left out]\n";

/// What a revert changed on disk, as text, and the tree it can be compared with.
#[derive(Default)]
struct RevertDiff {
    snapshot: Option<String>,
    diff: String,
    seen: BTreeSet<(ChangeRoot, RelPath)>,
}

impl Reverts {
    /// The `revert` field of a session; `None` while its head is at the end.
    ///
    /// `snapshot` is the tree of the guard, `diff` what differs between the guards and the disk, over
    /// the paths that were written since the session left its end.
    ///
    /// # Errors
    ///
    /// Ledger or snapshot store could not be read. A guard that has expired is left out.
    pub fn view(&self, ctx: &Context, session: &SessionId) -> Result<Option<RevertState>> {
        let (head, operations, imported) = self.store.read(ctx, |r| {
            let imported = r.sessions().get(session)?.revert;
            Ok((r.sessions().head(session)?, r.operations().list(session)?, imported))
        })?;
        let Some(head) = head else {
            return Ok(None);
        };
        let mut shown = RevertDiff::default();
        for operation in operations_since_tip(&operations) {
            let report = decode_report(operation)?.filter(|report| !report.without_effect);
            for root in report.iter().flat_map(|report| &report.roots) {
                self.append_guard_diff(ctx, root, &mut shown)?;
            }
        }
        let is_position = |it: &RevertState| it.message == head.message && it.part == head.part;
        if let (None, Some(imported)) = (&shown.snapshot, imported.filter(is_position)) {
            // The source reverted the session: only what it recorded is known.
            return Ok(Some(imported));
        }
        if shown.diff.len() > MAX_DIFF_BYTES {
            let end = (0..=MAX_DIFF_BYTES).rev().find(|at| shown.diff.is_char_boundary(*at));
            shown.diff.truncate(end.unwrap_or(0));
            shown.diff.push_str(CUT_NOTICE);
        }
        Ok(Some(RevertState {
            message: head.message,
            part: head.part,
            diff: shown.snapshot.is_some().then_some(shown.diff),
            snapshot: shown.snapshot,
            extra: ExtraFields::default(),
        }))
    }

    /// Adds what one guard shows; a path belongs to the oldest guard that holds it.
    fn append_guard_diff(
        &self,
        ctx: &Context,
        root: &RootReport,
        shown: &mut RevertDiff,
    ) -> Result<()> {
        // A directory that is gone has nothing left to compare.
        let Some(guard) = root.report.guard else { return Ok(()) };
        let handle = match self.snapshots.of_root(&root.root, ctx.now) {
            Err(EngineError::DirectoryGone { .. } | EngineError::DirectoryReplaced { .. }) => {
                return Ok(());
            }
            found => found?,
        };
        let capture = match handle.reader().find_capture(&guard.to_string()) {
            // It has expired.
            Err(SnapshotError::NoCapture { .. }) => return Ok(()),
            found => found?,
        };
        let diff = handle.reader().diff_worktree(&capture, &DiffOptions::default())?;
        shown.snapshot.get_or_insert_with(|| capture.tree.to_string());
        for file in diff.files {
            let is_new = !shown.seen.contains(&(root.root.clone(), file.path));
            if let (true, PatchBody::Text(text), true) =
                (is_new, file.patch, shown.diff.len() <= MAX_DIFF_BYTES)
            {
                shown.diff.push_str(&String::from_utf8_lossy(&text));
            }
        }
        shown.seen.extend(written_paths(root).map(|path| (root.root.clone(), path.clone())));
        Ok(())
    }
}
