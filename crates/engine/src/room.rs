//! Room: what happens to a call when its captures do not fit (R13).
//!
//! Before a call room is made and, failing that, the call is refused, or runs uncovered where that
//! was asked for. After one it is too late to refuse: what it did is then unknown, said so, and never
//! taken back. Nothing stays open for it.

use std::collections::{BTreeMap, BTreeSet};

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::change::{FileChange, FileImage, Root};
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::HeadMove;
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Capture, Captured, Expiry, Group, Need, Oid, Sweep, Vault, VaultError};
use turnstone_store::{Context, DoneOperation, Expiring, SessionFilter, StoreError, Unfinished};

use crate::call::group_of;
use crate::engine::{Engine, UndoPolicy};
use crate::error::{EngineError, Result};
use crate::expire::Candidate;
use crate::root::root_of;

/// About how many bytes are copied to make room.
const EFFORT: u64 = 64 << 20;
/// How often room is made for one capture: what becomes free is an estimate, and others capture too.
const ROUNDS: usize = 4;
/// Sessions read at once.
const PAGE: usize = 200;
/// Why nothing is known of a path.
const REASON: &str = "over_budget";

/// What goes with turns that expire: the captures of a session in one store before one that stays.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    root: Root,
    keep_from: Oid,
}

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
                Some(over) => self.make_room(ctx, vault, over.needed)?,
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

    /// Makes room for so many bytes: what nobody needs goes, then the undo of old turns (R13).
    /// Returns false, and nothing has expired, if even that would not be enough.
    fn make_room(&self, ctx: &Context, vault: &Vault, needed: u64) -> Result<bool> {
        let mut live = self.live(ctx)?;
        let sessions = live.clone();
        let guards = vault.list_chains()?;
        let guards = guards.into_iter().filter(|(_, chain)| chain.iter().any(|it| it.is_guard()));
        live.extend(guards.map(|(name, _)| Group::new(&name)));
        let mut need = Need { bytes: needed, live, effort: EFFORT, now: ctx.now };
        if vault.relieve(&need)?.fits {
            return Ok(true);
        }
        let mut steps = self.expirable(ctx, vault)?;
        let mut enough = vault.weigh(&expiries(&steps), needed, ctx.now)?;
        if enough.is_none() {
            // What undos displaced goes last.
            need.live = sessions;
            if vault.relieve(&need)?.fits {
                return Ok(true);
            }
            enough = vault.weigh(&expiries(&steps), needed, ctx.now)?;
        }
        let Some(enough) = enough else { return Ok(false) };
        steps.truncate(enough);
        self.expire(ctx, vault, &steps, &need)?;
        Ok(true)
    }

    /// Lets turns expire: written down first, then their captures go, then that is written down.
    fn expire(&self, ctx: &Context, vault: &Vault, steps: &[Candidate], need: &Need) -> Result<()> {
        let mut by_session: BTreeMap<&SessionId, (Vec<TurnId>, Oid)> = BTreeMap::new();
        for step in steps {
            let (turns, keep_from) =
                by_session.entry(&step.session).or_insert((Vec::new(), step.keep_from));
            turns.extend(step.turn.clone());
            *keep_from = step.keep_from;
        }
        let (mut gone, mut open) = (Vec::new(), Vec::new());
        for (session, (turns, keep_from)) in by_session {
            let written = self.write_expiry(ctx, vault, session, turns, keep_from)?;
            let Some(operation) = written else { continue };
            gone.push(Expiry { group: group_of(session), keep_from });
            open.extend(operation.map(|id| (session.clone(), id)));
        }
        fail_point!("engine::expiry_written", |_| Err(std::io::Error::other("failpoint").into()));
        vault.expire(&gone, need)?;
        fail_point!("engine::expiry_dropped", |_| Err(std::io::Error::other("failpoint").into()));
        for (session, id) in open {
            self.finish_expiry(ctx, &session, id)?;
        }
        Ok(())
    }

    /// Writes down which turns expire, unless somebody needs one of them just now: then nothing.
    /// No operation comes of it if no turn is concerned.
    fn write_expiry(
        &self,
        ctx: &Context,
        vault: &Vault,
        session: &SessionId,
        turns: Vec<TurnId>,
        keep_from: Oid,
    ) -> Result<Option<Option<OperationId>>> {
        if turns.is_empty() {
            return Ok(Some(None));
        }
        let id = self.mint.operation(ctx.now)?;
        let work = serde_json::to_value(Work { root: root_of(vault), keep_from });
        let expiring =
            Expiring { id: id.clone(), turns, work: work.map_err(std::io::Error::from)? };
        let (name, wanted) = (session.clone(), expiring.turns.len());
        let fresh = self.store.write(ctx, move |tx| tx.expire_turns(&name, &expiring)).wait();
        match fresh {
            Ok(fresh) if fresh.len() == wanted => Ok(Some(Some(id))),
            // Another process was faster with some of them; its own work says what goes.
            Ok(fresh) if !fresh.is_empty() => Ok(Some(Some(id))),
            Ok(_) | Err(StoreError::NoSession(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn finish_expiry(&self, ctx: &Context, session: &SessionId, id: OperationId) -> Result<()> {
        let report = serde_json::json!({});
        let done = DoneOperation { id, head: HeadMove::Stay, taken: Vec::new(), report };
        let name = session.clone();
        match self.store.write(ctx, move |tx| tx.finish_operation(&name, &done)).wait() {
            Ok(_) | Err(StoreError::NoSession(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finishes expiries that were written down and cut off before their bytes were gone.
    pub(crate) fn finish_expiries(&self, ctx: &Context) -> Result<Vec<OperationId>> {
        let mut done = Vec::new();
        for Unfinished { session, id, work } in self.store.read(ctx, |r| r.unfinished_expiries())? {
            let work: Work = serde_json::from_value(work).map_err(std::io::Error::from)?;
            // Of a directory that is gone the store goes as a whole.
            if std::path::Path::new(&work.root.path).is_dir() {
                let vault = self.vault_of(&work.root, ctx.now)?;
                let gone = [Expiry { group: group_of(&session), keep_from: work.keep_from }];
                let live = self.live(ctx)?;
                vault.expire(&gone, &Need { bytes: 0, live, effort: EFFORT, now: ctx.now })?;
            }
            self.finish_expiry(ctx, &session, id.clone())?;
            done.push(id);
        }
        Ok(done)
    }

    /// The pin groups of the sessions that are there.
    fn live(&self, ctx: &Context) -> Result<BTreeSet<Group>> {
        Ok(self.sessions(ctx)?.iter().map(group_of).collect())
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

    /// What upkeep may take away: nothing of a session that is there.
    pub(crate) fn sweep_for(&self, ctx: &Context, effort: u64) -> Result<Sweep> {
        let live = self.sessions(ctx)?.iter().map(ToString::to_string).collect();
        let keep = self.settings.keep;
        Ok(Sweep { live, keep, effort, dry_run: false, now: ctx.now })
    }
}

fn expiries(steps: &[Candidate]) -> Vec<Expiry> {
    let expiry = |it: &Candidate| Expiry { group: group_of(&it.session), keep_from: it.keep_from };
    steps.iter().map(expiry).collect()
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
