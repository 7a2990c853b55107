//! Eviction candidates: whose undo data is evicted when the budget is used up, and in which order (R13).
//!
//! Archived sessions first, then those that are idle longest; whole turns, oldest first. Never a turn
//! that runs, nor the newest one of a session that changed files, nor what a session it began did in it.
//! Guards of operations are evicted last (R14).

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_snapshot::{ExpiryStep, ListedCapture, Oid, PinGroup, SnapshotHandle};
use turnstone_store::{Context, ReadTx, StoreError, TurnRow};

use crate::captures::eviction::Eviction;
use crate::captures::operation_guard::{OperationGuard, UnownedGuard, list_unowned_guards};
use crate::error::Result;
use crate::history::fork::is_incomplete_copy;
use crate::tool_calls::tracked_call::session_pin_group;

/// Something that may go.
pub(crate) struct EvictionCandidate {
    pub(crate) priority: EvictionPriority,
    pub(crate) target: EvictionTarget,
}

/// What is evicted.
pub(crate) enum EvictionTarget {
    /// A turn, and with it the captures of its session before one that stays.
    Turn {
        session: SessionId,
        /// None if no turn needs those captures.
        turn: Option<TurnId>,
        keep_from: Oid,
    },
    /// What an operation displaced.
    Guard { session: SessionId, operation: OperationId, group: PinGroup },
    /// What a restore by hand displaced: no session knows of it.
    UnownedGuard(PinGroup),
}

/// When it is evicted: turns before guards, then archived sessions before others, those at work last, and
/// else by when something happened last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictionPriority {
    is_guard: bool,
    is_kept: bool,
    is_open: bool,
    last: i64,
}

impl EvictionCandidate {
    /// What it means for a snapshot store.
    pub(crate) fn expiry_step(&self) -> ExpiryStep {
        match &self.target {
            EvictionTarget::Turn { session, keep_from, .. } => {
                ExpiryStep { group: session_pin_group(session), keep_from: Some(*keep_from) }
            }
            EvictionTarget::Guard { group, .. } | EvictionTarget::UnownedGuard(group) => {
                ExpiryStep { group: group.clone(), keep_from: None }
            }
        }
    }
}

/// What is known of a session whose captures are in a store.
struct EvictionFacts {
    session: Session,
    turns: Vec<TurnRow>,
    expired: BTreeMap<TurnId, EpochMillis>,
    /// The captures each turn needs in this store.
    needs: BTreeMap<TurnId, BTreeSet<Oid>>,
    /// Those of all turns.
    named: BTreeSet<Oid>,
    /// Turns from here on stay.
    protected: LogCursor,
}

impl Eviction {
    /// What may expire in a store; sorted by priority, it is in the order of eviction.
    ///
    /// `guards` are those of all operations; without them none may go.
    pub(crate) fn list_candidates(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        guards: Option<&[OperationGuard]>,
    ) -> Result<Vec<EvictionCandidate>> {
        let store = handle.location().id.to_string();
        let mut found = Vec::new();
        for (group, chain) in handle.reader().list_chains()? {
            let Ok(id) = group.parse::<SessionId>() else { continue };
            if let Some(past) = self.store.read(ctx, |r| EvictionFacts::read(r, &id, &store))? {
                found.extend(past.list_in_chain(&chain));
            }
        }
        let Some(guards) = guards else { return Ok(found) };
        let pinned = guards.iter().map(|guard| guard.group.clone()).collect();
        let rank = |time: EpochMillis| EvictionPriority {
            is_guard: true,
            is_kept: true,
            is_open: false,
            last: time.0,
        };
        for guard in guards.iter().filter(|it| it.store == store && it.can_evict_at(ctx.now)) {
            let OperationGuard { session, operation, group, time, .. } = guard.clone();
            let target = EvictionTarget::Guard { session, operation, group };
            found.push(EvictionCandidate { priority: rank(time), target });
        }
        let unowned = list_unowned_guards(handle, &pinned, ctx.now)?;
        for UnownedGuard { group, time, .. } in
            unowned.into_iter().filter(|unowned| unowned.can_expire)
        {
            found.push(EvictionCandidate {
                priority: rank(time),
                target: EvictionTarget::UnownedGuard(group),
            });
        }
        Ok(found)
    }
}

impl EvictionFacts {
    /// Reads a session; nothing if it is gone, or being copied right now.
    fn read(r: &ReadTx<'_>, id: &SessionId, store: &str) -> Result<Option<Self>, StoreError> {
        let Some(session) = r.sessions().find(id)?.filter(|session| !is_incomplete_copy(session))
        else {
            return Ok(None);
        };
        let mut needs: BTreeMap<TurnId, BTreeSet<Oid>> = BTreeMap::new();
        for row in r.change_sets().list(id)?.into_iter().filter(|row| row.set.root.store == store) {
            let ids = row.before.iter().chain(&row.after).filter_map(|id| id.parse::<Oid>().ok());
            needs.entry(row.set.turn.clone()).or_default().extend(ids);
        }
        let named = needs.values().flatten().copied().collect();
        let (turns, expired) = (r.turns().list(id)?, r.undo_expiry().expired_turns(id)?);
        let newest = turns.iter().filter(|turn| needs.contains_key(&turn.id));
        let newest = newest.map(|turn| turn.span.0).max();
        let open = turns.iter().find(|turn| turn.state.is_open()).map(|turn| turn.span.0);
        let above = find_parent_protection(r, &session)?;
        let protected = [newest, open, above].into_iter().flatten().min();
        let protected = protected.unwrap_or(LogCursor(i64::MAX));
        Ok(Some(Self { session, turns, expired, needs, named, protected }))
    }

    fn priority(&self) -> EvictionPriority {
        EvictionPriority {
            is_guard: false,
            is_kept: self.session.time.archived.is_none(),
            is_open: self.turns.iter().any(|turn| turn.state.is_open()),
            last: self.turns.iter().map(|turn| turn.span.1.0).max().unwrap_or(i64::MIN),
        }
    }

    /// The turns of the session that may go, oldest first; captures are given newest first.
    fn list_in_chain(&self, chain: &[ListedCapture]) -> Vec<EvictionCandidate> {
        let mut remaining: Vec<(&TurnRow, usize)> = self
            .turns
            .iter()
            .filter(|turn| !self.expired.contains_key(&turn.id))
            .filter_map(|turn| Some((turn, self.oldest_needed(turn, chain)?)))
            .collect();
        remaining.sort_by_key(|(turn, _)| turn.span.0);
        let mut found = Vec::new();
        let candidate = |turn: Option<&TurnRow>, rest: &[(&TurnRow, usize)]| {
            // The newest capture stays in any case: one that is equal to it is not made again.
            let oldest = rest.iter().map(|(_, oldest)| *oldest).max().unwrap_or(0);
            let (session, turn) = (self.session.id.clone(), turn.map(|turn| turn.id.clone()));
            chain.get(oldest).map(|it| EvictionCandidate {
                priority: self.priority(),
                target: EvictionTarget::Turn { session, turn, keep_from: it.id },
            })
        };
        if !remaining.is_empty() {
            found.extend(candidate(None, &remaining));
        }
        for (nth, (turn, _)) in remaining.iter().enumerate() {
            if turn.span.0 >= self.protected || turn.state.is_open() {
                break;
            }
            found.extend(candidate(Some(turn), &remaining[nth + 1..]));
        }
        found
    }

    /// Where in the chain the oldest capture is that a turn needs; nothing if it needs none of it.
    fn oldest_needed(&self, turn: &TurnRow, chain: &[ListedCapture]) -> Option<usize> {
        let needs = self.needs.get(&turn.id);
        let is_needed = |id: &Oid| needs.is_some_and(|needs| needs.contains(id));
        // What no call names was made for a step of the turn, or for a call that is just opened (R42).
        let during = |it: &ListedCapture| {
            let ended = turn.ended.unwrap_or(i64::MAX);
            turn.started.is_some_and(|started| (started..=ended).contains(&it.time.0))
        };
        chain
            .iter()
            .rposition(|it| is_needed(&it.id) || (!self.named.contains(&it.id) && during(it)))
    }
}

/// From where on what a session did belongs to the newest turn of one that began it.
fn find_parent_protection(
    r: &ReadTx<'_>,
    session: &Session,
) -> Result<Option<LogCursor>, StoreError> {
    let (mut seen, mut found) = (vec![session.id.clone()], None);
    let mut at = session.parent.clone();
    while let Some(id) = at.take().filter(|id| !seen.contains(id)) {
        let Some(parent) = r.sessions().find(&id)? else { break };
        let newest = r.turns().list(&id)?.iter().map(|turn| turn.span.0).max();
        found = [found, newest].into_iter().flatten().min();
        seen.push(id);
        at = parent.parent;
    }
    Ok(found)
}
