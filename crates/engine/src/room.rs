//! Room: what happens to a call when its captures do not fit (R13).
//!
//! Before a call room is made and, failing that, the call is refused. After one it is too late to
//! refuse: what it did is then unknown, said so, and never taken back. Nothing stays open for it.

use std::collections::BTreeSet;

use turnstone_core::change::{FileChange, FileImage};
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Captured, Group, Sweep, Vault, VaultError};
use turnstone_store::{Context, SessionFilter};

use crate::engine::Engine;
use crate::error::Result;

/// How long captures nobody needs are kept (R41).
const KEEP: i64 = 7 * 24 * 3_600_000;
/// About how many bytes are copied to make room.
const EFFORT: u64 = 64 << 20;
/// Sessions read at once.
const PAGE: usize = 200;
/// Why nothing is known of a path.
const REASON: &str = "over_budget";

impl Engine {
    /// Captures what a call names, or everything; makes room once if it does not fit.
    pub(crate) fn capture_before(
        &self,
        ctx: &Context,
        vault: &Vault,
        group: &Group,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<Captured> {
        match capture(ctx, vault, group, named) {
            Err(error) if error.is_full() => {
                vault.gc(&self.sweep(ctx)?)?;
                Ok(capture(ctx, vault, group, named)?)
            }
            captured => Ok(captured?),
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
            Err(crate::EngineError::Vault(error)) if error.is_full() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What may go: nothing of a session that is there.
    fn sweep(&self, ctx: &Context) -> Result<Sweep> {
        let filter = SessionFilter { archived: true, ..SessionFilter::default() };
        let (mut live, mut cursor) = (BTreeSet::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.list_sessions(&filter, at.as_deref(), PAGE))?;
            live.extend(page.items.iter().map(|row| row.session.id.to_string()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Sweep { live, keep: KEEP, effort: EFFORT, dry_run: false, now: ctx.now })
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
