//! Comparison of a tracked call: what differs between the captures around it, and whose that is.

use std::path::Path;

use turnstone_core::change::{Evidence, FileChange};
use turnstone_snapshot::{Capture, read_git_position};
use turnstone_store::{CloseChangeSet, Context};

use super::closed_call::{ClosedCall, compare_captures};
use super::track::{ToolCalls, TrackedCall, session_pin_group};
use crate::captures::budgeted_capture::unknown_changes;
use crate::captures::partial_capture::{ClosingCapture, PartialCapture};
use crate::captures::trace::{AttributedChanges, CallTrace, TracedWindow};
use crate::error::Result;
use crate::turns::turn::Turn;

/// What was seen after a call.
#[derive(Default)]
struct ClosingView {
    /// The capture after it, and whether it holds everything.
    after: Option<(Capture, bool)>,
    changes: Vec<FileChange>,
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
        let ClosingView { after, changes, unseen, is_pending } = self.view(ctx, turn, call)?;
        let complete = after.as_ref().filter(|(_, is_complete)| *is_complete);
        let found = self.attribute(call, complete.map(|(after, _)| after), changes);
        let evidence = match (&call.named, &found) {
            (Some(_), _) => Evidence::Named,
            (None, found) if found.is_traced => Evidence::Traced,
            (None, _) => Evidence::Window,
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
        Ok((ClosedCall { trace, other_roots, is_pending, ..closed }, sets))
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
        Ok(match self.0.captures.capture_after(ctx, handle, &group, before, named)? {
            ClosingCapture::Complete(after) => {
                let changes = compare_captures(handle, before, &after)?;
                ClosingView { after: Some((after, true)), changes, ..none }
            }
            ClosingCapture::Partial(PartialCapture { after, changes, .. }) => {
                ClosingView { after: after.map(|after| (after, false)), changes, ..none }
            }
            ClosingCapture::NoRoom => ClosingView { is_pending: true, ..none },
        })
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

    /// Removes the traces of calls whose change sets are closed; what cannot be removed is left to maintenance.
    pub(crate) fn remove_traces(&self, call: &TrackedCall, closed: &ClosedCall) {
        if call.trace == CallTrace::NotRequested || closed.is_pending {
            return;
        }
        if let Err(error) = self.0.traces.remove(&call.id) {
            tracing::info!("cannot remove the trace of a command: {error}");
        }
    }
}
