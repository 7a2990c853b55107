//! Copying: messages, turns and change sets under new ids, whole or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use turnstone_core::fork::{
    CopiedMessage, ForkPlan, NewFork, RenamedMessages, fork_session, plan_fork, rename_references,
};
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{
    ForkOrigin, ImportedUsage, PartBody, Session, SessionUsage, TokenCounts,
};
use turnstone_core::operation::{
    HeadTarget, OperationKind, SessionHead, UndoExtent, UndoneChangeSet,
};
use turnstone_core::session_naming;
use turnstone_core::turn::{TurnOutcome, TurnState};
use turnstone_core::wire::part_usage;
use turnstone_store::{
    CloseChangeSet, Context, CopyChangeSet, EndTurn, FinishedOperation, LeaseTakeoverPolicy,
    NewChangeSet, NewOperation, NewPart, NewTurn, Store, StoreError, TurnRow, Tx,
};

use super::copy_batch::{CopyBatchWriter, CopyRow, MAX_BATCH_BYTES, MAX_BATCH_ROWS, estimate_part};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline::Timeline;
use crate::history::undo::{ChangeSetUndoState, UndoPlan, encode_plan, encode_report};
use crate::id_generator::IdGenerator;

/// Where a session that is still being copied names the process that copies it.
const COPYING_KEY: &str = "turnstone.copying";

/// True for a copy that is not whole.
pub(crate) fn is_incomplete_copy(session: &Session) -> bool {
    session.extra.contains_key(COPYING_KEY)
}

/// A session that is being copied.
pub(super) struct SessionCopy {
    pub(super) session: Session,
    plan: ForkPlan<String>,
    /// Which part became which.
    parts: HashMap<PartId, PartId>,
    /// The turns, by the message in the copy that begins each.
    turns: HashMap<MessageId, (TurnRow, TurnId)>,
    /// Change sets of the copied turns; `wanted` is how much of each is undone in the copy.
    pub(super) changes: Vec<ChangeSetUndoState>,
    /// True if its change sets are about its own files.
    pub(super) has_own_files: bool,
    /// Turns of the original that lost a capture: the copy cannot undo them either.
    pub(super) expired_turns: BTreeSet<TurnId>,
}

impl SessionCopy {
    /// What a turn of the original is called in the copy.
    pub(super) fn copied_turn(&self, turn: &TurnId) -> Option<TurnId> {
        let mut all = self.turns.values();
        all.find(|(original, _)| original.id == *turn).map(|(_, copied)| copied.clone())
    }
}

/// Copies sessions with the captures their turns need.
#[derive(Clone)]
pub(crate) struct SessionCopies {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) changes: SessionChanges,
}

impl SessionCopies {
    /// Writes a copy whose captures are where they belong: all of it, or nothing.
    pub(super) fn write_or_delete(&self, ctx: &Context, copy: &SessionCopy) -> Result<Session> {
        let written = self.write_session(ctx, copy);
        if written.is_err() {
            // What cannot be removed now is removed by recovery; it is invisible until then.
            drop(self.store.delete_session(ctx, &copy.session.id));
        }
        written
    }

    fn write_session(&self, ctx: &Context, copy: &SessionCopy) -> Result<Session> {
        let (origin, whole) = (copy.session.origin.clone(), copy.session.clone());
        let mut made = whole.clone();
        made.origin = None;
        made.extra.insert(COPYING_KEY.to_owned(), self.store.leases().owner_id()?.as_str().into());
        made.time.archived = Some(made.time.created.clone());
        self.store.write(ctx, move |tx| tx.sessions().create(&made)).wait()?;
        fail::fail_point!("engine::fork_begun", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let lease = self.store.leases().acquire(ctx, &whole.id, LeaseTakeoverPolicy::IfDead)?;
        self.write_rows(&ctx.clone().with_lease(&lease), copy)?;
        self.copy_expiry(ctx, copy)?;
        self.store.leases().release(ctx, &lease)?;
        if copy.has_own_files {
            self.record_undone_extents(ctx, copy)?;
        }
        let id = whole.id;
        let finish = move |tx: &Tx<'_>| {
            let origin = origin.clone();
            tx.sessions().update(&id, |session| {
                session.origin = origin;
                session.extra.remove(COPYING_KEY);
                session.time.archived = None;
                Ok(())
            })
        };
        Ok(self.store.write(ctx, finish).wait()?)
    }

    /// What could not be undone in the original, or lost a capture, cannot be undone in the copy.
    fn copy_expiry(&self, ctx: &Context, copy: &SessionCopy) -> Result<()> {
        let Some(origin) = &copy.session.origin else { return Ok(()) };
        let expired = self.store.read(ctx, |r| r.undo_expiry().expired_turns(&origin.session))?;
        let is_gone =
            |turn: &TurnId| expired.contains_key(turn) || copy.expired_turns.contains(turn);
        let gone = copy.turns.values().filter(|(turn, _)| is_gone(&turn.id));
        let turns: Vec<TurnId> = gone.map(|(_, turn)| turn.clone()).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let (session, id) = (copy.session.id.clone(), self.id_generator.new_operation_id(ctx.now)?);
        self.store
            .write(ctx, move |tx| tx.undo_expiry().copy_turn_expiry(&session, &id, &turns))
            .wait()?;
        Ok(())
    }

    /// Removes copies whose process died before they were whole.
    pub(crate) fn remove_abandoned(&self, ctx: &Context) -> Result<Vec<SessionId>> {
        let mut gone = Vec::new();
        for session in self.store.leases().find_abandoned_sessions(ctx, COPYING_KEY)? {
            match self.store.delete_session(ctx, &session) {
                Ok(_) => gone.push(session),
                // Another process was faster.
                Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }

    /// Reads the original and decides what is copied; nothing is written.
    pub(super) fn plan(
        &self,
        ctx: &Context,
        session: &SessionId,
        at: Option<&MessageId>,
    ) -> Result<SessionCopy> {
        self.recovery.ensure_recovered(ctx, session)?;
        let (original, line, seq) = self.store.read(ctx, |r| {
            Ok((
                r.sessions().get(session)?,
                Timeline::read(r, session)?,
                r.sessions().seq(session)?,
            ))
        })?;
        if let Some(expected) = ctx.expected_seq.filter(|expected| *expected != seq) {
            return Err(
                StoreError::Stale { session: session.clone(), expected, current: seq }.into()
            );
        }
        let entries = self.store.read(ctx, |r| r.messages().list_with_raw_parts(session))?;
        let head =
            at.map(|at| SessionHead { message: at.clone(), part: None }).or(line.head.clone());
        let entries = match at {
            Some(_) => entries,
            None => truncate_at_head(entries, &line),
        };
        let (id, random) = self.id_generator.new_session_id(ctx.now)?;
        let (messages, parts) = self.new_ids(ctx, &entries)?;
        // Handed out in the order of the original, so that the ids ascend.
        let (mut messages, mut parts) = (messages.into_iter(), parts.into_iter());
        let spare =
            (self.id_generator.new_message_id(ctx.now)?, self.id_generator.new_part_id(ctx.now)?);
        let mut plan = plan_fork(
            entries,
            at,
            &id,
            || messages.next().unwrap_or_else(|| spare.0.clone()),
            || parts.next().unwrap_or_else(|| spare.1.clone()),
            copy_body,
        )?;
        let origin = ForkOrigin { session: session.clone(), message: at.cloned(), seq };
        let (slug, version) =
            (session_naming::random_slug(random), env!("CARGO_PKG_VERSION").to_owned());
        let new = NewFork { id, slug, version, now: ctx.now, origin };
        let mut made = fork_session(&original, new);
        made.usage_base = Some(copied_usage(&plan)?);
        let mut copy = SessionCopy {
            session: made,
            parts: std::mem::take(&mut plan.parts).into_iter().collect(),
            turns: HashMap::new(),
            changes: Vec::new(),
            has_own_files: false,
            expired_turns: BTreeSet::new(),
            plan,
        };
        self.copy_turns(ctx, session, &line, head.as_ref(), &mut copy)?;
        Ok(copy)
    }

    /// Returns an id for every message and part that may be copied.
    fn new_ids(
        &self,
        ctx: &Context,
        entries: &[CopiedMessage<String>],
    ) -> Result<(Vec<MessageId>, Vec<PartId>)> {
        let mut messages = Vec::new();
        let mut parts = Vec::new();
        for (_, said) in entries {
            messages.push(self.id_generator.new_message_id(ctx.now)?);
            for _ in said {
                parts.push(self.id_generator.new_part_id(ctx.now)?);
            }
        }
        Ok((messages, parts))
    }

    /// Finds the turns of what is copied, and what they did before the cut.
    fn copy_turns(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        cut: Option<&SessionHead>,
        copy: &mut SessionCopy,
    ) -> Result<()> {
        let cut = line.position_of(cut);
        let by_message: HashMap<&MessageId, &TurnRow> =
            line.turns.iter().map(|turn| (&turn.message, turn)).collect();
        let mut turns = Vec::new();
        for (old, new) in &copy.plan.renamed {
            if let Some(&turn) = by_message.get(old) {
                copy.turns
                    .insert(new.clone(), (turn.clone(), self.id_generator.new_turn_id(ctx.now)?));
                turns.push(turn);
            }
        }
        copy.changes = self.changes.of_turns(ctx, session, &turns)?;
        copy.changes.retain(|selected| {
            line.change_set_position(session, &selected.turn, &selected.row)
                .is_some_and(|position| position < cut)
        });
        Ok(())
    }

    /// Writes messages, turns and change sets of a copy, in order: many rows in one transaction, and
    /// the next one made and sent while the last is being synced (R23).
    fn write_rows(&self, ctx: &Context, copy: &SessionCopy) -> Result<()> {
        let mut writer = CopyBatchWriter::new(&self.store, ctx, &copy.session.id);
        queue_copy_rows(copy, &mut writer)?;
        writer.finish()
    }

    /// Records in the copy how much of its turns is undone, as it was at the point.
    pub(super) fn record_undone_extents(&self, ctx: &Context, copy: &SessionCopy) -> Result<()> {
        let mut taken = Vec::new();
        let mut turns = BTreeMap::new();
        for selected in
            copy.changes.iter().filter(|selected| selected.wanted != UndoExtent::Nothing)
        {
            let change = selected.row.set.id.clone();
            taken.push(UndoneChangeSet { change, extent: selected.wanted.clone() });
            turns.insert(selected.row.opened, copy.copied_turn(&selected.turn));
        }
        if taken.is_empty() {
            return Ok(());
        }
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let turns: Vec<_> = turns.into_values().flatten().collect();
        // No file moves: those of the point are there already.
        let session = copy.session.id.clone();
        let plan = UndoPlan { turns, ..UndoPlan::empty(id.clone(), OperationKind::Undo, session) };
        let new = NewOperation { id: id.clone(), kind: plan.kind, plan: encode_plan(&plan)? };
        let report = encode_report(&plan.build_report(Vec::new()))?;
        let done = FinishedOperation { id, head: HeadTarget::Stay, taken, report };
        let session = copy.session.id.clone();
        let note = move |tx: &Tx<'_>| {
            tx.operations().plan(&session, &new)?;
            tx.operations().finish(&session, &done)
        };
        self.store.write(ctx, note).wait()?;
        Ok(())
    }
}

/// Writes the rows of a copy, in order.
fn queue_copy_rows(copy: &SessionCopy, writer: &mut CopyBatchWriter<'_>) -> Result<()> {
    let mut open: Option<&(TurnRow, TurnId)> = None;
    for (message, parts) in &copy.plan.messages {
        let mut portions = split_parts(parts);
        if let Some(turn) = copy.turns.get(&message.id) {
            queue_turn_end(copy, open.replace(turn), writer)?;
            let (id, message) = (turn.1.clone(), message.clone());
            writer.put(CopyRow::Begin(NewTurn { id, message, parts: Vec::new() }))?;
        } else {
            let first = portions.pop_front().unwrap_or_default();
            writer.put(CopyRow::Message(message.clone(), first))?;
        }
        for parts in portions {
            writer.put(CopyRow::Parts(message.id.clone(), parts))?;
        }
    }
    queue_turn_end(copy, open, writer)
}

/// The parts of a message, as many at a time as fit into one transaction.
fn split_parts(parts: &[(PartId, String)]) -> VecDeque<Vec<NewPart>> {
    let mut portions: VecDeque<Vec<NewPart>> = VecDeque::new();
    let mut weight = (0, 0);
    for (id, body) in parts {
        let (rows, bytes) = estimate_part(body);
        weight = (weight.0 + rows, weight.1 + bytes);
        let new = NewPart { id: id.clone(), body: body.clone() };
        match portions.back_mut() {
            Some(last) if weight.0 < MAX_BATCH_ROWS && weight.1 <= MAX_BATCH_BYTES => {
                last.push(new)
            }
            _ => {
                weight = (rows, bytes);
                portions.push_back(vec![new]);
            }
        }
    }
    portions
}

/// Copies what a turn did, and ends it as it ended.
fn queue_turn_end(
    copy: &SessionCopy,
    turn: Option<&(TurnRow, TurnId)>,
    writer: &mut CopyBatchWriter<'_>,
) -> Result<()> {
    let Some((original, turn)) = turn else {
        return Ok(());
    };
    for selected in copy.changes.iter().filter(|selected| selected.turn == original.id) {
        if let Some((change, close)) = copy_change_set(selected, turn, &copy.parts) {
            writer.put(CopyRow::Change(change, close))?;
        }
    }
    let outcome = match original.state {
        TurnState::Completed => TurnOutcome::Completed,
        TurnState::Failed => TurnOutcome::Failed,
        TurnState::Aborted => TurnOutcome::Aborted,
        // A running turn continues only in the original.
        TurnState::Interrupted | TurnState::Accepted | TurnState::Running | TurnState::Waiting => {
            TurnOutcome::Interrupted
        }
    };
    let (session, turn) = (copy.session.id.clone(), turn.clone());
    writer.put(CopyRow::End(EndTurn { session, turn, outcome, error: None }))
}

/// What is before the head.
fn truncate_at_head(
    mut entries: Vec<CopiedMessage<String>>,
    line: &Timeline,
) -> Vec<CopiedMessage<String>> {
    let (message, part) = line.head_position();
    if part > 0
        && let Some((_, parts)) = entries.get_mut(message)
    {
        parts.truncate(part - 1);
    }
    entries.truncate(message.saturating_add(usize::from(part > 0)));
    entries
}

/// What the copied steps cost was paid once, by the original (W8).
fn copied_usage(plan: &ForkPlan<String>) -> Result<ImportedUsage> {
    let mut counted = SessionUsage::default();
    for (_, body) in plan.messages.iter().flat_map(|(_, parts)| parts) {
        if let Some(step) = parse_if_kind(body, "step-finish")? {
            counted = counted.plus(part_usage(&step));
        }
    }
    Ok(ImportedUsage { cost: Some(0.into()), tokens: Some(TokenCounts::default()), counted })
}

/// The body of a part that may be of this kind, parsed: most are copied unparsed.
fn parse_if_kind(body: &str, kind: &str) -> Result<Option<PartBody>> {
    let is_named = body.contains(&format!("\"{kind}\""));
    let parsed = is_named.then(|| serde_json::from_str(body)).transpose();
    Ok(parsed.map_err(StoreError::from)?)
}

/// A body as it is in the copy.
fn copy_body(body: String, names: &RenamedMessages<'_>) -> Result<String> {
    match parse_if_kind(&body, "compaction")? {
        Some(parsed) => {
            Ok(serde_json::to_string(&rename_references(parsed, names))
                .map_err(StoreError::from)?)
        }
        None => Ok(body),
    }
}

/// A change set under its own id in another turn; nothing if it is not closed.
fn copy_change_set(
    selected: &ChangeSetUndoState,
    turn: &TurnId,
    parts: &HashMap<PartId, PartId>,
) -> Option<(CopyChangeSet, CloseChangeSet)> {
    let (row, set) = (&selected.row, &selected.row.set);
    let (opened, closed) = row.span();
    let git = set.git.clone();
    let open = NewChangeSet {
        id: set.id.clone(),
        turn: turn.clone(),
        part: set.part.as_ref().and_then(|part| parts.get(part)).cloned(),
        root: set.root.clone(),
        evidence: set.evidence,
        outer: set.outer.clone(),
        named: row.named.clone(),
        outside: row.outside.clone(),
        before: row.before.clone(),
        git: git.as_ref().map(|git| git.before.clone()),
        captured_from: row.captured_from,
        continues: row.continues.clone(),
    };
    let close = CloseChangeSet {
        id: set.id.clone(),
        evidence: set.evidence,
        after: row.after.clone(),
        changes: set.changes.clone(),
        not_covered: row.not_covered,
        git: git.map(|git| git.after),
        trace: set.trace.clone(),
    };
    Some((CopyChangeSet { open, copied: (opened, closed?) }, close))
}
