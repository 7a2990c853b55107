//! Comparison of a tracked call: what differs between the captures around it, and whose that is.

use std::path::Path;

use turnstone_core::change::{Evidence, FileChange};
use turnstone_snapshot::{Capture, PinGroup, SnapshotHandle, read_git_position};
use turnstone_store::{CloseChangeSet, Context, NewChangeSet};

use super::closed_call::{ClosedCall, compare_captures};
use super::track::{ToolCalls, TrackedCall, session_pin_group};
use crate::captures::budgeted_capture::unknown_changes;
use crate::captures::partial_capture::{ClosingCapture, PartialCapture};
use crate::captures::session_coverage::change_root_of;
use crate::captures::trace::{AttributedChanges, CallTrace, TracedWindow};
use crate::error::Result;
use crate::turns::turn::Turn;

/// What was seen after a call.
#[derive(Default)]
struct ClosingView {
    /// The capture after it, and whether it holds everything.
    after: Option<(Capture, bool)>,
    changes: Vec<FileChange>,
    /// When the capture after it began, in nanoseconds by the time of files.
    from: Option<i64>,
    /// How many changes cannot even be named.
    unseen: usize,
    /// True if the disk was too full to capture anything.
    is_pending: bool,
}

/// Comparison of tracked calls: what they changed, in all roots.
pub(crate) struct CallComparison<'c>(pub(crate) &'c ToolCalls);

impl CallComparison<'_> {
    /// Finds out what a call changed, in all roots; returns what closes its change sets.
    pub(crate) fn compare(
        &self,
        ctx: &Context,
        turn: &Turn,
        call: &TrackedCall,
    ) -> Result<(ClosedCall, Vec<CloseChangeSet>)> {
        let ClosingView { after, from, changes, unseen, is_pending } =
            self.view(ctx, turn, call)?;
        let complete = after.as_ref().filter(|(_, is_complete)| *is_complete);
        let found = self.attribute(call, complete.map(|(after, _)| after), changes);
        let evidence = match (&call.named, &found) {
            (Some(_), _) => Evidence::Named,
            (None, found) if found.is_traced => Evidence::Traced,
            (None, _) => Evidence::Window,
        };
        let continuation = match complete.filter(|_| found.has_remaining) {
            Some((after, _)) => self.continue_window(ctx, turn, call, (after, from))?,
            None => None,
        };
        let AttributedChanges { changes, report, .. } = found;
        let trace = (call.trace != CallTrace::NotRequested).then_some(report);
        let uncovered = changes.iter().filter(|change| !change.is_covered()).count();
        let close = CloseChangeSet {
            id: call.id.clone(),
            evidence,
            after: after.map(|(after, _)| after.id.to_string()),
            changes: changes.clone(),
            not_covered: (uncovered + unseen + call.outside.len()) as u64,
            git: call
                .snapshots
                .as_ref()
                .and_then(|handle| read_git_position(Path::new(&handle.location().root))),
            trace: trace.clone(),
        };
        let (id, not_covered) = (call.id.clone(), close.not_covered);
        // A set that stays open is closed by recovery, once there is space.
        let (mut other_roots, mut sets) = (Vec::new(), Vec::new());
        sets.extend((!is_pending).then_some(close));
        for other in &call.other_roots {
            let (closed, more) = self.compare(ctx, turn, other)?;
            other_roots.push(closed);
            sets.extend(more);
        }
        let closed = ClosedCall::new(id, evidence, changes, not_covered);
        Ok((ClosedCall { trace, other_roots, is_pending, continuation, ..closed }, sets))
    }

    /// Builds the change set of the processes that a traced call has left running.
    fn continue_window(
        &self,
        ctx: &Context,
        turn: &Turn,
        call: &TrackedCall,
        (after, from): (&Capture, Option<i64>),
    ) -> Result<Option<Box<NewChangeSet>>> {
        let Some(handle) = &call.snapshots else { return Ok(None) };
        let root = change_root_of(handle);
        Ok(Some(Box::new(NewChangeSet {
            id: self.0.id_generator.new_change_id(ctx.now)?,
            turn: turn.id.clone(),
            part: None,
            git: read_git_position(Path::new(&root.path)),
            root,
            evidence: Evidence::Window,
            outer: None,
            named: Vec::new(),
            outside: Vec::new(),
            before: Some(after.id.to_string()),
            captured_from: from,
            continues: Some(call.id.clone()),
        })))
    }

    /// Captures again and compares.
    fn view(&self, ctx: &Context, turn: &Turn, call: &TrackedCall) -> Result<ClosingView> {
        let none = ClosingView::default();
        let (handle, before) = match (&call.snapshots, &call.before) {
            (Some(handle), Some(before)) => (handle, before),
            (Some(_), None) => {
                let unseen = usize::from(call.named.is_none());
                let changes = unknown_changes(call.named.iter().flatten());
                return Ok(ClosingView { changes, unseen, ..none });
            }
            (None, _) => return Ok(none),
        };
        let (group, named) = (session_pin_group(&turn.session), call.named.as_ref());
        let from = match call.trace {
            CallTrace::Requested => self.0.traces.file_time(&call.id).ok(),
            CallTrace::NotRequested | CallTrace::Unavailable(_) => None,
        };
        if let Some(after) = self.capture_written(ctx, call, handle, &group)? {
            let changes = compare_captures(handle, before, &after)?;
            return Ok(ClosingView { after: Some((after, true)), changes, ..none });
        }
        Ok(match self.0.captures.capture_after(ctx, handle, &group, before, named)? {
            ClosingCapture::Complete(after) => {
                let changes = compare_captures(handle, before, &after)?;
                ClosingView { after: Some((after, true)), from, changes, ..none }
            }
            ClosingCapture::Partial(PartialCapture { after, changes, .. }) => {
                ClosingView { after: after.map(|after| (after, false)), changes, ..none }
            }
            ClosingCapture::NoRoom => ClosingView { is_pending: true, ..none },
        })
    }

    /// Captures what a call wrote, where that is known: a save that came right after it is not its own.
    /// `None` if it is not known, or does not fit.
    fn capture_written(
        &self,
        ctx: &Context,
        call: &TrackedCall,
        handle: &SnapshotHandle,
        group: &PinGroup,
    ) -> Result<Option<Capture>> {
        let Some(written) = &call.written else { return Ok(None) };
        match handle.capture_written(group, written, ctx.now) {
            Ok(captured) => Ok(Some(captured.capture)),
            Err(error) if error.is_full() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the trace of a call which changes are its own.
    fn attribute(
        &self,
        call: &TrackedCall,
        after: Option<&Capture>,
        changes: Vec<FileChange>,
    ) -> AttributedChanges {
        let window = call.snapshots.as_deref().zip(call.before.as_ref());
        let window = window.map(|(handle, before)| TracedWindow {
            change: &call.id,
            handle,
            opened_root: &call.opened_root,
            captured_from: call.captured_from,
            before,
            after,
        });
        self.attribute_in(call, window.as_ref(), changes)
    }

    /// Asks the trace of a call which changes in a window are its own; the window may be one in another root.
    pub(crate) fn attribute_in(
        &self,
        call: &TrackedCall,
        window: Option<&TracedWindow<'_>>,
        changes: Vec<FileChange>,
    ) -> AttributedChanges {
        match (&call.trace, window) {
            (CallTrace::Requested, Some(window)) => self.0.traces.attribute(window, changes),
            (CallTrace::Unavailable(why), _) => AttributedChanges::untraced(changes, why.clone()),
            (CallTrace::Requested, None) => {
                AttributedChanges::untraced(changes, "nothing was captured before it".to_owned())
            }
            (CallTrace::NotRequested, _) => AttributedChanges::without_trace(changes),
        }
    }

    /// Removes the traces of calls whose change sets are closed, or has them count for the windows that continue
    /// these; what cannot be removed is left to maintenance.
    pub(crate) fn remove_traces(&self, call: &TrackedCall, closed: &ClosedCall) {
        if call.trace == CallTrace::NotRequested || closed.is_pending {
            return;
        }
        let done = match &closed.continuation {
            Some(next) => self.0.traces.continue_as(&call.id, &next.id),
            None => self.0.traces.remove(&call.id),
        };
        if let Err(error) = done {
            tracing::info!("cannot remove the trace of a command: {error}");
        }
    }
}
