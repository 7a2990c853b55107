//! Room: what happens to a call when its captures do not fit (R13).
//!
//! Before a call room is made and, failing that, the call is refused, or runs uncovered where that
//! was asked for. After one it is too late to refuse: what it did is then unknown, said so, and never
//! taken back. Nothing stays open for it.

use std::collections::BTreeSet;

use turnstone_core::change::{FileChange, FileImage};
use turnstone_core::id::SessionId;
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Capture, Captured, Group, Sweep, Vault, VaultError};
use turnstone_store::{Context, SessionFilter};

use crate::call::group_of;
use crate::engine::{Engine, UndoPolicy};
use crate::error::{EngineError, Result};

/// About how many bytes are copied to make room.
pub(crate) const EFFORT: u64 = 64 << 20;
/// How often room is made for one capture: what becomes free is an estimate, and others capture too.
const ROUNDS: usize = 4;
/// Sessions read at once.
const PAGE: usize = 200;
/// Why nothing is known of a path.
const REASON: &str = "over_budget";

impl Engine {
    /// Captures what a call names, or everything; makes room if it does not fit.
    pub(crate) fn capture_before(
        &self,
        ctx: &Context,
        vault: &Vault,
        group: &Group,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Captured> {
        let mut refused = match capture(ctx, vault, group, named) {
            Err(error) if error.is_full() => error,
            captured => return Ok(captured?),
        };
        for _ in 0..ROUNDS {
            let made = match refused.over_budget() {
                Some(over) => self.make_room(ctx, vault, over)?,
                // The disk itself is full: what nobody needs can go, and nobody's undo has to.
                None => vault.gc(&self.sweep_for(ctx, EFFORT)?).map(|_| true)?,
            };
            refused = match capture(ctx, vault, group, named) {
                Err(error) if error.is_full() => error,
                captured => return Ok(captured?),
            };
            if !made || refused.over_budget().is_none() {
                break;
            }
        }
        Err(match refused.over_budget() {
            Some(over) => EngineError::NoRoom(over),
            None => refused.into(),
        })
    }

    /// The same; nothing if it does not fit and the call may run all the same.
    pub(crate) fn capture_if_possible(
        &self,
        ctx: &Context,
        vault: &Vault,
        group: &Group,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<Capture>> {
        match self.settings.undo {
            UndoPolicy::Required => {
                Ok(Some(self.capture_before(ctx, vault, group, named)?.capture))
            }
            UndoPolicy::BestEffort => {
                Ok(self.capture_after(ctx, vault, group, named)?.map(|captured| captured.capture))
            }
        }
    }

    /// The same after a call; nothing if it does not fit.
    pub(crate) fn capture_after(
        &self,
        ctx: &Context,
        vault: &Vault,
        group: &Group,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Option<Captured>> {
        match self.capture_before(ctx, vault, group, named) {
            Ok(captured) => Ok(Some(captured)),
            Err(EngineError::NoRoom(_)) => Ok(None),
            Err(EngineError::Vault(error)) if error.is_full() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The pin groups of the sessions that are there, and of what their operations displaced.
    pub(crate) fn live(&self, ctx: &Context) -> Result<BTreeSet<Group>> {
        let mut live = self.pinned_guards(ctx)?;
        live.extend(self.sessions(ctx)?.iter().map(group_of));
        Ok(live)
    }

    fn sessions(&self, ctx: &Context) -> Result<Vec<SessionId>> {
        let filter = SessionFilter { archived: true, ..SessionFilter::default() };
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.list_sessions(&filter, at.as_deref(), PAGE))?;
            found.extend(page.items.into_iter().map(|row| row.session.id));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// What upkeep may take away: nothing of a session that is there, nor of its operations.
    pub(crate) fn sweep_for(&self, ctx: &Context, effort: u64) -> Result<Sweep> {
        let live = self.live(ctx)?.iter().map(|group| group.name().to_owned()).collect();
        let keep = self.settings.keep;
        Ok(Sweep { live, keep, effort, dry_run: false, now: ctx.now })
    }
}

fn capture(
    ctx: &Context,
    vault: &Vault,
    group: &Group,
    named: Option<&BTreeSet<RelPath>>,
) -> Result<Captured, VaultError> {
    match named {
        Some(named) => vault.capture_named(group, named, true, ctx.now),
        None => vault.track(group, ctx.now),
    }
}

/// The changes of a call whose end could not be captured: its paths, and nothing known of them.
pub(crate) fn unknown<'p>(named: impl IntoIterator<Item = &'p RelPath>) -> Vec<FileChange> {
    let image = || FileImage::Uncovered { reason: REASON.to_owned() };
    let change =
        |path: &RelPath| FileChange { path: path.clone(), before: image(), after: image() };
    named.into_iter().map(change).collect()
}
