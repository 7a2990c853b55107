//! Room: what happens to a call when its captures do not fit (R13).
//!
//! Before a call room is made and, failing that, the call is refused, or runs uncovered where that
//! was asked for. After one it is too late to refuse: what it did is then unknown, said so, and never
//! taken back. Nothing stays open for it.

use std::collections::BTreeSet;

use turnstone_core::change::{FileChange, FileImage};
use turnstone_core::id::SessionId;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{
    Capture, CaptureOutcome, GcRequest, PinGroup, SnapshotError, SnapshotHandle,
};
use turnstone_store::{Context, SessionFilter};

use crate::engine::{Engine, OverBudgetPolicy};
use crate::error::{EngineError, Result};
use crate::tool_calls::tracked_call::session_pin_group;

/// About how many bytes are copied to make room.
pub(crate) const EVICTION_COPY_BYTES: u64 = 64 << 20;
/// How often room is made for one capture: what becomes free is an estimate, and others capture too.
const EVICTION_ROUNDS: usize = 4;
/// Sessions read at once.
const PAGE: usize = 200;
/// Why nothing is known of a path.
const OVER_BUDGET_REASON: &str = "over_budget";

impl Engine {
    /// Captures what a call names, or everything; makes room if it does not fit.
    pub(crate) fn capture_with_eviction(
        &self,
        ctx: &Context,
        vault: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<CaptureOutcome> {
        let mut refused = match capture_once(ctx, vault, group, named) {
            Err(error) if error.is_full() => error,
            captured => return Ok(captured?),
        };
        for _ in 0..EVICTION_ROUNDS {
            let made = match refused.over_budget() {
                Some(over) => self.free_space(ctx, vault, over)?,
                // The disk itself is full: what nobody needs can go, and nobody's undo has to.
                None => vault
                    .collect_garbage(&self.gc_request(ctx, EVICTION_COPY_BYTES)?)
                    .map(|_| true)?,
            };
            refused = match capture_once(ctx, vault, group, named) {
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

    /// The same; nothing if it does not fit and the call may run all the same.
    pub(crate) fn capture_by_policy(
        &self,
        ctx: &Context,
        vault: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<Capture>> {
        match self.settings.over_budget_policy {
            OverBudgetPolicy::RefuseCall => {
                Ok(Some(self.capture_with_eviction(ctx, vault, group, named)?.capture))
            }
            OverBudgetPolicy::RunUncovered => Ok(self
                .try_capture_with_eviction(ctx, vault, group, named)?
                .map(|captured| captured.capture)),
        }
    }

    /// The same after a call; nothing if it does not fit.
    pub(crate) fn try_capture_with_eviction(
        &self,
        ctx: &Context,
        vault: &SnapshotHandle,
        group: &PinGroup,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<CaptureOutcome>> {
        match self.capture_with_eviction(ctx, vault, group, named) {
            Ok(captured) => Ok(Some(captured)),
            Err(EngineError::OverBudget(_)) => Ok(None),
            Err(EngineError::Snapshot(error)) if error.is_full() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The pin groups of the sessions that are there, and of what their operations displaced.
    pub(crate) fn live_pin_groups(&self, ctx: &Context) -> Result<BTreeSet<PinGroup>> {
        let mut live = self.pinned_guard_groups(ctx)?;
        live.extend(self.list_session_ids(ctx)?.iter().map(session_pin_group));
        Ok(live)
    }

    fn list_session_ids(&self, ctx: &Context) -> Result<Vec<SessionId>> {
        let filter = SessionFilter { archived: true, ..SessionFilter::default() };
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.sessions().list(&filter, at.as_deref(), PAGE))?;
            found.extend(page.items.into_iter().map(|row| row.session.id));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// What upkeep may take away: nothing of a session that is there, nor of its operations.
    pub(crate) fn gc_request(&self, ctx: &Context, effort: u64) -> Result<GcRequest> {
        let live = self.live_pin_groups(ctx)?.iter().map(|group| group.name().to_owned()).collect();
        let keep = self.settings.retention_millis;
        Ok(GcRequest { live, keep, effort, dry_run: false, now: ctx.now })
    }
}

fn capture_once(
    ctx: &Context,
    vault: &SnapshotHandle,
    group: &PinGroup,
    named: Option<&BTreeSet<RelPath>>,
) -> Result<CaptureOutcome, SnapshotError> {
    match named {
        Some(named) => vault.capture_named(group, named, true, ctx.now),
        None => vault.capture(group, ctx.now),
    }
}

/// The changes of a call whose end could not be captured: its paths, and nothing known of them.
pub(crate) fn unknown_changes<'p>(named: impl IntoIterator<Item = &'p RelPath>) -> Vec<FileChange> {
    let image = || FileImage::Uncovered { reason: OVER_BUDGET_REASON.to_owned() };
    let change =
        |path: &RelPath| FileChange { path: path.clone(), before: image(), after: image() };
    named.into_iter().map(change).collect()
}
