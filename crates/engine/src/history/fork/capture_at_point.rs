//! The files of a point: the capture that holds all of them, or none (R42).

use turnstone_core::change::Evidence;
use turnstone_core::id::MessageId;
use turnstone_core::model::{PartBody, Session};
use turnstone_core::operation::SessionHead;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{Capture, CaptureScope, SnapshotError, SnapshotHandle};
use turnstone_store::{ChangeSetRow, Context};

use crate::error::Result;
use crate::history::fork::Forks;
use crate::history::timeline::Timeline;

/// A capture of all files, by its tree or its id, and when in the log it was made.
struct CaptureMoment {
    at: LogCursor,
    name: String,
}

impl Forks {
    /// The capture of all files as they were before a message; nothing if there is none.
    ///
    /// Of the turn that the message begins, the first capture before it changed anything; otherwise
    /// the last one before, if the session changed nothing since.
    pub(crate) fn find_capture_before(
        &self,
        ctx: &Context,
        session: &Session,
        handle: &SnapshotHandle,
        message: &MessageId,
    ) -> Result<Option<(Capture, LogCursor)>> {
        let (line, rows) = self.store.read(ctx, |r| {
            Ok((Timeline::read(r, &session.id)?, r.change_sets().list(&session.id)?))
        })?;
        let head = SessionHead { message: message.clone(), part: None };
        let cut = line.cursor_before(line.position_of(Some(&head)));
        let store = handle.location().id.as_str();
        let rows: Vec<ChangeSetRow> =
            rows.into_iter().filter(|row| row.set.root.store == store).collect();
        let mut all = self.list_step_captures(ctx, session, &line)?;
        all.extend(rows.iter().filter(|row| row.set.evidence != Evidence::Named).flat_map(|row| {
            let before = row.before.clone().map(|name| CaptureMoment { at: row.opened, name });
            let closed = row.closed.zip(row.after.clone());
            before.into_iter().chain(closed.map(|(at, name)| CaptureMoment { at, name }))
        }));
        all.sort_by_key(|taken| taken.at);
        let changed = |row: &&ChangeSetRow| row.closed.is_none() || !row.set.changes.is_empty();
        let after = all.iter().filter(|it| it.at > cut).take_while(|it| {
            let opened = |row: &ChangeSetRow| row.opened > cut && row.opened < it.at;
            !rows.iter().filter(changed).any(opened)
        });
        let before = all.iter().rev().filter(|it| it.at <= cut).take_while(|it| {
            let closed = |row: &ChangeSetRow| row.closed.is_none_or(|at| at > it.at && at <= cut);
            !rows.iter().filter(|row| row.opened <= cut).filter(changed).any(closed)
        });
        for taken in after.chain(before) {
            if let Some(capture) = find_full_capture(handle, &taken.name)? {
                return Ok(Some((capture, cut)));
            }
        }
        Ok(None)
    }

    /// The trees that steps recorded when they began and ended.
    fn list_step_captures(
        &self,
        ctx: &Context,
        session: &Session,
        line: &Timeline,
    ) -> Result<Vec<CaptureMoment>> {
        let is_step = |kind: &str| matches!(kind, "step-start" | "step-finish");
        let mut found = Vec::new();
        for message in &line.outline {
            for ((id, kind), at) in message.parts.iter().zip(&message.part_cursors) {
                if !is_step(kind) {
                    continue;
                }
                let part = self.store.read(ctx, |r| r.messages().get_part(&session.id, id))?;
                #[expect(clippy::wildcard_enum_match_arm, reason = "only steps name a tree")]
                let name = match part.body {
                    PartBody::StepStart(step) => step.snapshot,
                    PartBody::StepFinish(step) => step.snapshot,
                    _ => None,
                };
                found.extend(name.map(|name| CaptureMoment { at: *at, name }));
            }
        }
        Ok(found)
    }
}

/// The capture of that name, if it is still there and looked at everything.
fn find_full_capture(handle: &SnapshotHandle, name: &str) -> Result<Option<Capture>> {
    match handle.reader().find_capture(name) {
        Ok(capture) => Ok(Some(capture).filter(|it| it.coverage.scope == CaptureScope::Whole)),
        Err(SnapshotError::NoCapture { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
