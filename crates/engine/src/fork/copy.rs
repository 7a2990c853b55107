//! Copying: messages, turns and change sets under new ids, whole or not at all.

use std::collections::{BTreeSet, HashMap, VecDeque};

use turnstone_core::fork::{Copied, ForkPlan, Names, NewFork, fork_session, plan_fork, rename_in};
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{Message, Origin, PartBody, Session, Tokens, Usage, UsageBase};
use turnstone_core::name;
use turnstone_core::operation::Head;
use turnstone_core::turn::{Outcome, TurnEvent, TurnState};
use turnstone_core::wire::usage_of;
use turnstone_store::{
    CloseChange, Context, CopyChange, EndTurn, NewPart, NewTurn, OpenChange, Store, StoreError,
    Takeover, Ticket, TurnRow, Tx,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::line::Line;
use crate::undo::Held;

/// About how many rows are written in one transaction, and how many bytes (R23).
const AT_ONCE: usize = 200;
const BYTES: usize = 1 << 20;

/// Texts from about this length on are rows of their own.
const LONG: usize = 2048;

/// Transactions on their way at a time.
const AHEAD: usize = 8;

/// Where a session that is not wholly copied says which process copies it.
const COPYING: &str = "turnstone.copying";

/// True for a copy that is not whole.
pub(crate) fn is_half(session: &Session) -> bool {
    session.extra.contains_key(COPYING)
}

/// A session that is being copied.
pub(super) struct Copy {
    pub(super) session: Session,
    plan: ForkPlan<String>,
    /// Which part became which.
    parts: HashMap<PartId, PartId>,
    /// The turns, by the message in the copy that begins each.
    turns: HashMap<MessageId, (TurnRow, TurnId)>,
    /// Change sets of the turns that are copied; `wanted` is how much of each is taken back there.
    pub(super) changes: Vec<Held>,
    /// True if its change sets are about files of its own.
    pub(super) is_apart: bool,
    /// Turns of the original of which a capture is gone: the copy cannot take them back either.
    pub(super) lost: BTreeSet<TurnId>,
}

impl Copy {
    /// What a turn of the original is called in the copy.
    pub(super) fn turn_of(&self, turn: &TurnId) -> Option<TurnId> {
        let mut all = self.turns.values();
        all.find(|(original, _)| original.id == *turn).map(|(_, copied)| copied.clone())
    }
}

impl Engine {
    /// Copies a session up to a message, or as far as it stands, into a session of its own.
    ///
    /// Every message and part has a new id. Change sets keep theirs: what is taken back in one of
    /// the sessions is taken back. Until the copy is whole it is archived and has no origin.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Fork`] if the session has no such message. The original is never
    /// touched; a copy that was cut off is never shown, and recovery removes it.
    pub fn fork(
        &self,
        ctx: &Context,
        session: &SessionId,
        at: Option<&MessageId>,
    ) -> Result<Session> {
        let mut copy = self.plan_copy(ctx, session, at)?;
        // The original is only read; whether it stands where the caller thinks was seen in that read.
        let ctx = &ctx.settled();
        self.pin(ctx, &mut copy)?;
        self.write_session(ctx, &copy)
    }

    /// Writes a copy whose captures are where they belong: all of it, or nothing.
    pub(super) fn write_session(&self, ctx: &Context, copy: &Copy) -> Result<Session> {
        let written = self.write_rows(ctx, copy);
        if written.is_err() {
            // What cannot be removed now is removed by recovery; nobody sees it until then.
            drop(self.store.delete_session(ctx, &copy.session.id));
        }
        written
    }

    fn write_rows(&self, ctx: &Context, copy: &Copy) -> Result<Session> {
        let (origin, whole) = (copy.session.origin.clone(), copy.session.clone());
        let mut made = whole.clone();
        made.origin = None;
        made.extra.insert(COPYING.to_owned(), self.store.owner_id()?.as_str().into());
        made.time.archived = Some(made.time.created.clone());
        self.store.write(ctx, move |tx| tx.create_session(&made)).wait()?;
        fail::fail_point!("engine::fork_begun", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let lease = self.store.lease(ctx, &whole.id, Takeover::IfDead)?;
        self.write_copy(&ctx.clone().leased(&lease), copy)?;
        self.carry_expiry(ctx, copy)?;
        self.store.release(ctx, &lease)?;
        if copy.is_apart {
            self.note_taken(ctx, copy)?;
        }
        let id = whole.id;
        let finish = move |tx: &Tx<'_>| {
            let origin = origin.clone();
            tx.update_session(&id, |session| {
                session.origin = origin;
                session.extra.remove(COPYING);
                session.time.archived = None;
                Ok(())
            })
        };
        Ok(self.store.write(ctx, finish).wait()?)
    }

    /// What could not be taken back in the original, or has lost a capture, cannot be in the copy.
    fn carry_expiry(&self, ctx: &Context, copy: &Copy) -> Result<()> {
        let Some(origin) = &copy.session.origin else { return Ok(()) };
        let expired = self.store.read(ctx, |r| r.expired(&origin.session))?;
        let is_gone = |turn: &TurnId| expired.contains_key(turn) || copy.lost.contains(turn);
        let gone = copy.turns.values().filter(|(turn, _)| is_gone(&turn.id));
        let turns: Vec<TurnId> = gone.map(|(_, turn)| turn.clone()).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let (session, id) = (copy.session.id.clone(), self.mint.operation(ctx.now)?);
        self.store.write(ctx, move |tx| tx.copy_expiry(&session, &id, &turns)).wait()?;
        Ok(())
    }

    /// Removes copies whose process died before they were whole.
    pub(crate) fn sweep_copies(&self, ctx: &Context) -> Result<Vec<SessionId>> {
        let mut gone = Vec::new();
        for session in self.store.abandoned(ctx, COPYING)? {
            match self.store.delete_session(ctx, &session) {
                Ok(_) => gone.push(session),
                // Somebody else was faster.
                Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone)
    }

    /// Reads the original and decides what is copied; nothing is written.
    pub(super) fn plan_copy(
        &self,
        ctx: &Context,
        session: &SessionId,
        at: Option<&MessageId>,
    ) -> Result<Copy> {
        self.meet(ctx, session)?;
        let (original, line, seq) = self.store.read(ctx, |r| {
            Ok((r.get_session(session)?, Line::read(r, session)?, r.session_seq(session)?))
        })?;
        if let Some(expected) = ctx.expected_seq.filter(|expected| *expected != seq) {
            return Err(
                StoreError::Stale { session: session.clone(), expected, current: seq }.into()
            );
        }
        let entries = self.store.read(ctx, |r| r.copy_messages(session))?;
        let head = at.map(|at| Head { message: at.clone(), part: None }).or(line.head.clone());
        let entries = match at {
            Some(_) => entries,
            None => standing(entries, &line),
        };
        let (id, random) = self.mint.session(ctx.now)?;
        let mut messages = Vec::new();
        let mut parts = Vec::new();
        for (_, said) in &entries {
            messages.push(self.mint.message(ctx.now)?);
            for _ in said {
                parts.push(self.mint.part(ctx.now)?);
            }
        }
        // Handed out in the order of the original, so that the ids ascend.
        let (mut messages, mut parts) = (messages.into_iter(), parts.into_iter());
        let spare = (self.mint.message(ctx.now)?, self.mint.part(ctx.now)?);
        let mut plan = plan_fork(
            entries,
            at,
            &id,
            || messages.next().unwrap_or_else(|| spare.0.clone()),
            || parts.next().unwrap_or_else(|| spare.1.clone()),
            copy_body,
        )?;
        let origin = Origin { session: session.clone(), message: at.cloned(), seq };
        let (slug, version) = (name::slug(random), env!("CARGO_PKG_VERSION").to_owned());
        let new = NewFork { id, slug, version, now: ctx.now, origin };
        let mut made = fork_session(&original, new);
        made.usage_base = Some(paid(&plan)?);
        let mut copy = Copy {
            session: made,
            parts: std::mem::take(&mut plan.parts).into_iter().collect(),
            turns: HashMap::new(),
            changes: Vec::new(),
            is_apart: false,
            lost: BTreeSet::new(),
            plan,
        };
        self.copy_turns(ctx, session, &line, head.as_ref(), &mut copy)?;
        Ok(copy)
    }

    /// Finds the turns of what is copied, and what they did before the cut.
    fn copy_turns(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Line,
        cut: Option<&Head>,
        copy: &mut Copy,
    ) -> Result<()> {
        let cut = line.spot(cut);
        let by_message: HashMap<&MessageId, &TurnRow> =
            line.turns.iter().map(|turn| (&turn.message, turn)).collect();
        let mut turns = Vec::new();
        for (old, new) in &copy.plan.renamed {
            if let Some(&turn) = by_message.get(old) {
                copy.turns.insert(new.clone(), (turn.clone(), self.mint.turn(ctx.now)?));
                turns.push(turn);
            }
        }
        copy.changes = self.changes_of(ctx, session, &turns)?;
        copy.changes.retain(|held| {
            line.change(session, &held.turn, &held.row).is_some_and(|spot| spot < cut)
        });
        Ok(())
    }

    /// Writes messages, turns and change sets of a copy, in order: many rows in one transaction, and
    /// the next one made and sent while the last is being synced (R23).
    fn write_copy(&self, ctx: &Context, copy: &Copy) -> Result<()> {
        let mut pen = Pen {
            store: &self.store,
            ctx,
            session: &copy.session.id,
            rows: Vec::new(),
            weight: (0, 0),
            written: VecDeque::new(),
        };
        write_rows_of(copy, &mut pen)?;
        pen.finish()
    }
}

/// Puts rows into transactions.
struct Pen<'a> {
    store: &'a Store,
    ctx: &'a Context,
    session: &'a SessionId,
    /// What goes into the next transaction, and its weight.
    rows: Vec<Row>,
    weight: (usize, usize),
    written: VecDeque<Ticket<()>>,
}

impl Pen<'_> {
    fn put(&mut self, row: Row) -> Result<()> {
        let (rows, bytes) = row.weight();
        if !self.rows.is_empty()
            && (self.weight.0 + rows > AT_ONCE || self.weight.1 + bytes > BYTES)
        {
            self.send()?;
        }
        self.weight = (self.weight.0 + rows, self.weight.1 + bytes);
        self.rows.push(row);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.written.len() == AHEAD
            && let Some(first) = self.written.pop_front()
        {
            first.wait()?;
        }
        let (session, rows) = (self.session.clone(), std::mem::take(&mut self.rows));
        self.weight = (0, 0);
        let put = move |tx: &Tx<'_>| rows.iter().try_for_each(|row| row.put(tx, &session));
        self.written.push_back(self.store.write(self.ctx, put));
        fail::fail_point!("engine::fork_copies", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.send()?;
        }
        self.written.into_iter().try_for_each(|ticket| ticket.wait().map_err(Into::into))
    }
}

/// What is written of a copy, row by row.
enum Row {
    Begin(NewTurn),
    /// A message with its first parts.
    Message(Message, Vec<NewPart>),
    /// Further parts of one message.
    Parts(MessageId, Vec<NewPart>),
    Change(CopyChange, CloseChange),
    End(EndTurn),
}

impl Row {
    fn put(&self, tx: &Tx<'_>, session: &SessionId) -> Result<(), StoreError> {
        match self {
            Self::Begin(new) => {
                tx.begin_turn(new)?;
                tx.move_turn(session, &new.id, &TurnEvent::Started).map(drop)
            }
            Self::Message(message, parts) => tx.add_message(message, parts),
            Self::Parts(message, parts) => tx.add_parts(session, message, parts),
            Self::Change(change, close) => tx.copy_change(session, change, close).map(drop),
            Self::End(end) => tx.end_turn(end).map(drop),
        }
    }

    /// About how many rows and bytes it takes.
    fn weight(&self) -> (usize, usize) {
        match self {
            Self::Message(_, parts) => weigh_all((6, 1024), parts),
            Self::Parts(_, parts) => weigh_all((1, 0), parts),
            Self::Change(_, close) => (4, close.changes.len() * 256),
            Self::Begin(_) | Self::End(_) => (6, 1024),
        }
    }
}

/// About how many rows and bytes a part takes.
const fn weigh(body: &str) -> (usize, usize) {
    (2 + 2 * (body.len() / LONG), body.len())
}

fn weigh_all(first: (usize, usize), parts: &[NewPart]) -> (usize, usize) {
    parts.iter().fold(first, |sum, part| {
        let (rows, bytes) = weigh(&part.body);
        (sum.0 + rows, sum.1 + bytes)
    })
}

/// Writes the rows of a copy, in order.
fn write_rows_of(copy: &Copy, pen: &mut Pen<'_>) -> Result<()> {
    let mut open: Option<&(TurnRow, TurnId)> = None;
    for (message, parts) in &copy.plan.messages {
        let mut portions = portions(parts);
        if let Some(turn) = copy.turns.get(&message.id) {
            end_copied(copy, open.replace(turn), pen)?;
            let (id, message) = (turn.1.clone(), message.clone());
            pen.put(Row::Begin(NewTurn { id, message, parts: Vec::new() }))?;
        } else {
            let first = portions.pop_front().unwrap_or_default();
            pen.put(Row::Message(message.clone(), first))?;
        }
        for parts in portions {
            pen.put(Row::Parts(message.id.clone(), parts))?;
        }
    }
    end_copied(copy, open, pen)
}

/// The parts of a message, as many at a time as fit into one transaction.
fn portions(parts: &[(PartId, String)]) -> VecDeque<Vec<NewPart>> {
    let mut portions: VecDeque<Vec<NewPart>> = VecDeque::new();
    let mut weight = (0, 0);
    for (id, body) in parts {
        let (rows, bytes) = weigh(body);
        weight = (weight.0 + rows, weight.1 + bytes);
        let new = NewPart { id: id.clone(), body: body.clone() };
        match portions.back_mut() {
            Some(last) if weight.0 < AT_ONCE && weight.1 <= BYTES => last.push(new),
            _ => {
                weight = (rows, bytes);
                portions.push_back(vec![new]);
            }
        }
    }
    portions
}

/// Copies what a turn did, and ends it as it ended.
fn end_copied(copy: &Copy, turn: Option<&(TurnRow, TurnId)>, pen: &mut Pen<'_>) -> Result<()> {
    let Some((original, turn)) = turn else {
        return Ok(());
    };
    for held in copy.changes.iter().filter(|held| held.turn == original.id) {
        if let Some((change, close)) = copied(held, turn, &copy.parts) {
            pen.put(Row::Change(change, close))?;
        }
    }
    let outcome = match original.state {
        TurnState::Completed => Outcome::Completed,
        TurnState::Failed => Outcome::Failed,
        TurnState::Aborted => Outcome::Aborted,
        // A turn that runs goes on in the original only.
        TurnState::Interrupted | TurnState::Accepted | TurnState::Running | TurnState::Waiting => {
            Outcome::Interrupted
        }
    };
    let (session, turn) = (copy.session.id.clone(), turn.clone());
    pen.put(Row::End(EndTurn { session, turn, outcome, error: None }))
}

/// What stands before the head.
fn standing(mut entries: Vec<Copied<String>>, line: &Line) -> Vec<Copied<String>> {
    let (message, part) = line.here();
    if part > 0
        && let Some((_, parts)) = entries.get_mut(message)
    {
        parts.truncate(part - 1);
    }
    entries.truncate(message.saturating_add(usize::from(part > 0)));
    entries
}

/// What the copied steps cost was paid once, by the original (W8).
fn paid(plan: &ForkPlan<String>) -> Result<UsageBase> {
    let mut counted = Usage::default();
    for (_, body) in plan.messages.iter().flat_map(|(_, parts)| parts) {
        if let Some(step) = parse_if(body, "step-finish")? {
            counted = counted.plus(usage_of(&step));
        }
    }
    Ok(UsageBase { cost: Some(0.into()), tokens: Some(Tokens::default()), counted })
}

/// The body of a part that may be of this kind, parsed: most are copied without a look into them.
fn parse_if(body: &str, kind: &str) -> Result<Option<PartBody>> {
    let is_named = body.contains(&format!("\"{kind}\""));
    let parsed = is_named.then(|| serde_json::from_str(body)).transpose();
    Ok(parsed.map_err(StoreError::from)?)
}

/// A body as it is in the copy.
fn copy_body(body: String, names: &Names<'_>) -> Result<String> {
    match parse_if(&body, "compaction")? {
        Some(parsed) => {
            Ok(serde_json::to_string(&rename_in(parsed, names)).map_err(StoreError::from)?)
        }
        None => Ok(body),
    }
}

/// A change set under its own id in another turn; nothing if it is not closed.
fn copied(
    held: &Held,
    turn: &TurnId,
    parts: &HashMap<PartId, PartId>,
) -> Option<(CopyChange, CloseChange)> {
    let (row, set) = (&held.row, &held.row.set);
    let (opened, closed) = row.span();
    let git = set.git.clone();
    let open = OpenChange {
        id: set.id.clone(),
        turn: turn.clone(),
        part: set.part.as_ref().and_then(|part| parts.get(part)).cloned(),
        root: set.root.clone(),
        evidence: set.evidence,
        outer: set.outer.clone(),
        named: row.named.clone(),
        before: row.before.clone(),
        git: git.as_ref().map(|git| git.before.clone()),
    };
    let close = CloseChange {
        id: set.id.clone(),
        evidence: set.evidence,
        after: row.after.clone(),
        changes: set.changes.clone(),
        not_covered: row.not_covered,
        git: git.map(|git| git.after),
    };
    Some((CopyChange { open, copied: (opened, closed?) }, close))
}
