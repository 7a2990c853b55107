//! Captures within the budget, and what happens to a call when they do not fit (R13).
//!
//! Before a call, old undo data is evicted; if that is not enough, the call is refused, or runs uncovered where that
//! was asked for. After one it is too late to refuse: what fits is captured path by path, and the rest
//! is reported and never undone. Only on a full disk the call stays open, until there is space.

use std::collections::BTreeSet;

use turnstone_core::change::{FileChange, PathImage, UncoveredReason};
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{Capture, CaptureOutcome, PinGroup, SnapshotError, SnapshotHandle};
use turnstone_store::Context;

use crate::captures::eviction::Eviction;
use crate::captures::operation_guard::CaptureRetention;
use crate::error::{EngineError, Result};
use crate::settings::OverBudgetPolicy;

/// About how many bytes an eviction copies.
pub(crate) const EVICTION_COPY_BYTES: u64 = 64 << 20;
/// How often eviction is tried for one capture: the freed space is an estimate, and others capture too.
const EVICTION_ROUNDS: usize = 4;

/// Captures files, and evicts old undo data when a capture does not fit.
#[derive(Clone)]
pub(crate) struct BudgetedCapture {
    pub(crate) eviction: Eviction,
    pub(crate) pins: CaptureRetention,
    pub(crate) over_budget_policy: OverBudgetPolicy,
}

impl BudgetedCapture {
    /// Captures the paths a call names, or everything; evicts if it does not fit.
    pub(crate) fn capture(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<CaptureOutcome> {
        let mut refused = match capture_once(ctx, handle, group, named) {
            Err(error) if error.is_full() => error,
            captured => return Ok(captured?),
        };
        for _ in 0..EVICTION_ROUNDS {
            let made = match refused.over_budget() {
                Some(over) => self.eviction.free_space(ctx, handle, over)?,
                // The disk itself is full: unpinned captures can go, and no undo data has to.
                None => self.collect_garbage(ctx, handle)?,
            };
            refused = match capture_once(ctx, handle, group, named) {
                Err(error) if error.is_full() => error,
                captured => return Ok(captured?),
            };
            if !made || refused.over_budget().is_none() {
                break;
            }
        }
        Err(match refused.over_budget() {
            Some(over) => EngineError::OverBudget(over),
            None => refused.into(),
        })
    }

    /// Drops unpinned captures; false if there is no space even for that.
    fn collect_garbage(&self, ctx: &Context, handle: &SnapshotHandle) -> Result<bool> {
        let request = self.pins.gc_request(ctx, EVICTION_COPY_BYTES)?;
        match handle.maintenance().collect_garbage(&request) {
            Err(error) if error.is_full() => Ok(false),
            collected => Ok(collected.map(|_| true)?),
        }
    }

    /// Captures before a call; `None` if the capture does not fit and the call may run uncovered.
    pub(crate) fn capture_by_policy(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<Capture>> {
        match self.over_budget_policy {
            OverBudgetPolicy::RefuseCall => {
                Ok(Some(self.capture(ctx, handle, group, named)?.capture))
            }
            OverBudgetPolicy::RunUncovered => {
                Ok(self.try_capture(ctx, handle, group, named)?.map(|captured| captured.capture))
            }
        }
    }

    /// Captures after a call; `None` if the capture does not fit.
    pub(crate) fn try_capture(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<CaptureOutcome>> {
        match self.capture(ctx, handle, group, named) {
            Ok(captured) => Ok(Some(captured)),
            Err(error) if error.is_full() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn capture_once(
    ctx: &Context,
    handle: &SnapshotHandle,
    group: &PinGroup,
    named: Option<&BTreeSet<RelPath>>,
) -> Result<CaptureOutcome, SnapshotError> {
    match named {
        Some(named) => handle.capture_named(group, named, true, ctx.now),
        None => handle.capture(group, ctx.now),
    }
}

/// The changes of a call whose end could not be captured: its paths, and nothing known of them.
pub(crate) fn unknown_changes<'p>(named: impl IntoIterator<Item = &'p RelPath>) -> Vec<FileChange> {
    let image = || PathImage::Uncovered { reason: UncoveredReason::OverBudget };
    let change =
        |path: &RelPath| FileChange { path: path.clone(), before: image(), after: image() };
    named.into_iter().map(change).collect()
}
