//! Jumps: to any point a session has been at, on its line or on one that a branch has hidden.

use std::collections::HashSet;

use turnstone_core::id::{MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind};
use turnstone_core::permission::Gate;
use turnstone_core::time::{Cursor, Millis, Seq};
use turnstone_store::{
    Boundary, Context, DoneOperation, NewOperation, OperationRow, Outline, SessionAt, TurnRow,
};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::line::Line;
use crate::mark::standing;
use crate::past::Past;
use crate::undo::{
    Aside, Gathered, Held, Scope, Switch, UndoOptions, UndoPlan, is_switch, write_mark,
};

/// Messages or parts written in one transaction.
const AT_ONCE: usize = 50;

/// A point of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before a turn began.
    Before(TurnId),
    /// After a turn ended.
    After(TurnId),
    /// After an operation.
    Operation(OperationId),
    /// Where somebody gave a name; the newest of that name.
    Checkpoint(String),
    /// At a boundary, by its place in the session's stream.
    Seq(Seq),
}

/// A point with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The operation that named it.
    pub operation: OperationId,
    /// The name.
    pub name: String,
    /// When.
    pub time: Millis,
}

impl Engine {
    /// Plans to bring files and conversation to a point; changes nothing.
    ///
    /// Change sets after it are taken back, those before it are as they were then, whatever branch
    /// they are on. What nobody's turn changed stays.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoPoint`], or a fact could not be obtained: then there is no plan.
    pub fn plan_jump(
        &self,
        ctx: &Context,
        session: &SessionId,
        point: &Point,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        let (line, operations) = self.line_of(ctx, session)?;
        let boundaries = self.store.read(ctx, |r| r.boundaries(session, Seq(0), usize::MAX))?;
        let target = find_point(&line, &operations, &boundaries, point)?
            .ok_or_else(|| EngineError::NoPoint { session: session.clone(), point: say(point) })?;
        let past = Past::at(&operations, target.cursor);
        let changes = match options.scope {
            Scope::Conversation => Vec::new(),
            Scope::Both | Scope::Files => {
                self.changes_to(ctx, session, &line, &past, target.cursor)?
            }
        };
        let mut turns: Vec<TurnId> = Vec::new();
        for held in &changes {
            if !turns.contains(&held.turn) {
                turns.push(held.turn.clone());
            }
        }
        let (mut head, mut aside) = (HeadMove::Stay, Aside::default());
        if options.scope != Scope::Files {
            let at = self.store.read(ctx, |r| r.session_at(session, target.seq))?;
            let other = match is_on(&line.outline, &at) {
                true => None,
                false => self.other_line(ctx, session, &operations, &boundaries, target)?,
            };
            let outline = other.as_ref().map_or(&line.outline, |(_, outline)| outline);
            head = head_in(outline, &at, past.head.as_ref());
            let here = line.moment(line.here());
            aside = self.aside_to(ctx, session, target.cursor, here)?;
            let later = line.turns.iter().filter(|turn| turn.span.0 >= target.cursor);
            aside.withdrawn = self.granted_in(ctx, session, &later.collect::<Vec<_>>())?;
            aside.switch = other.map(|(seq, outline)| switch(&line.outline, &outline, seq));
        }
        let gathered =
            Gathered { kind: OperationKind::Jump, turns, also: Vec::new(), changes, head, aside };
        self.plan(ctx, session, gathered, options)
    }

    /// Finds a point.
    pub(crate) fn resolve(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Line,
        operations: &[OperationRow],
        point: &Point,
    ) -> Result<Boundary> {
        let boundaries = self.store.read(ctx, |r| r.boundaries(session, Seq(0), usize::MAX))?;
        find_point(line, operations, &boundaries, point)?
            .ok_or_else(|| EngineError::NoPoint { session: session.clone(), point: say(point) })
    }

    /// The change sets of a session that are not as they were at a place in the log.
    fn changes_to(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Line,
        past: &Past,
        at: Cursor,
    ) -> Result<Vec<Held>> {
        let all: Vec<&TurnRow> = line.turns.iter().collect();
        let mut changes = self.changes_of(ctx, session, &all)?;
        for held in &mut changes {
            held.wanted = match held.row.opened > at {
                true => Extent::All,
                false => past.taken(&held.row.set.id),
            };
        }
        changes.retain(|held| held.wanted != held.taken);
        Ok(changes)
    }

    /// The line a point is on, if a branch or a jump has left it since: whole, as it was then.
    fn other_line(
        &self,
        ctx: &Context,
        session: &SessionId,
        operations: &[OperationRow],
        boundaries: &[Boundary],
        target: Boundary,
    ) -> Result<Option<(Seq, Vec<Outline>)>> {
        let mut left = None;
        for operation in operations.iter().filter(|it| it.planned > target.cursor) {
            if operation.kind == OperationKind::Branch || is_switch(operation)? {
                left = Some(operation);
                break;
            }
        }
        let Some(left) = left else {
            return Ok(None);
        };
        let last = boundaries.iter().rev().find(|it| it.cursor < left.planned).unwrap_or(&target);
        let at = self.store.read(ctx, |r| r.session_at(session, last.seq))?;
        Ok(Some((last.seq, outline_of(&at))))
    }

    /// Changes the line of a session: hides one end and brings another one back. Safe to repeat.
    pub(crate) fn switch(&self, ctx: &Context, session: &SessionId, switch: &Switch) -> Result<()> {
        self.hide(ctx, session, &switch.messages, &switch.parts)?;
        let (at, present) = self
            .store
            .read(ctx, |r| Ok((r.session_at(session, switch.line)?, r.outline(session)?)))?;
        let there: HashSet<&PartId> =
            present.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
        let known: HashSet<&MessageId> = present.iter().map(|it| &it.message).collect();
        for said in at.messages {
            let mut parts: Vec<_> =
                said.parts.into_iter().filter(|part| !there.contains(&part.id)).collect();
            let mut message = (!known.contains(&said.message.id)).then_some(said.message);
            while message.is_some() || !parts.is_empty() {
                let rest = parts.split_off(parts.len().min(AT_ONCE));
                let (first, some) = (message.take(), std::mem::replace(&mut parts, rest));
                let show = move |tx: &turnstone_store::Tx<'_>| {
                    first.iter().try_for_each(|message| tx.put_message(message).map(drop))?;
                    some.iter().try_for_each(|part| tx.put_part(part).map(drop))
                };
                self.store.write(ctx, show).wait()?;
                fail::fail_point!("engine::line_shown", |_| {
                    Err(std::io::Error::other("failpoint").into())
                });
            }
        }
        Ok(())
    }

    /// Gives the point a session stands at a name. Taking the name of another point passes the gate that its
    /// removal passes.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] or [`EngineError::Asked`] at the gate; [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn checkpoint(
        &self,
        ctx: &Context,
        session: &SessionId,
        name: &str,
    ) -> Result<OperationId> {
        self.recover_session(ctx, session)?;
        // The older point of this name cannot be reached by it any more.
        if self.checkpoints(ctx, session)?.iter().any(|checkpoint| checkpoint.name == name) {
            self.require(ctx, session, Gate::Checkpoint, &[name.to_owned()])?;
        }
        let id = self.mint.operation(ctx.now)?;
        let plan = write_mark(name, Vec::new())?;
        let new = NewOperation { id: id.clone(), kind: OperationKind::Checkpoint, plan };
        let done = DoneOperation {
            id: id.clone(),
            head: HeadMove::Stay,
            taken: Vec::new(),
            report: serde_json::Value::Null,
        };
        let session = session.clone();
        let name = move |tx: &turnstone_store::Tx<'_>| {
            tx.plan_operation(&session, &new)?;
            tx.finish_operation(&session, &done)
        };
        self.store.write(ctx, name).wait()?;
        Ok(id)
    }

    /// The named points of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoSession`].
    pub fn checkpoints(&self, ctx: &Context, session: &SessionId) -> Result<Vec<Checkpoint>> {
        let operations = self.store.read(ctx, |r| r.operations(session))?;
        standing(&operations)
    }
}

/// A point in words, for whoever is told that there is none.
fn say(point: &Point) -> String {
    match point {
        Point::Before(turn) | Point::After(turn) => turn.to_string(),
        Point::Operation(operation) => operation.to_string(),
        Point::Checkpoint(name) => name.clone(),
        Point::Seq(seq) => seq.0.to_string(),
    }
}

fn find_point(
    line: &Line,
    operations: &[OperationRow],
    boundaries: &[Boundary],
    point: &Point,
) -> Result<Option<Boundary>> {
    let at = |cursor: Cursor| boundaries.iter().find(|it| it.cursor == cursor).copied();
    let turn = |id: &TurnId| line.turns.iter().find(|turn| turn.id == *id);
    // An operation is numbered by where it was planned; its end is the boundary.
    let end = |operation: &OperationRow| {
        boundaries.iter().find(|it| it.entity == operation.planned.0).copied()
    };
    Ok(match point {
        Point::Before(id) => turn(id).and_then(|turn| at(turn.span.0)),
        Point::After(id) => {
            turn(id).filter(|turn| !turn.state.is_open()).and_then(|turn| at(turn.span.1))
        }
        Point::Operation(id) => operations.iter().find(|it| it.id == *id).and_then(end),
        Point::Checkpoint(wanted) => {
            let named = standing(operations)?.into_iter().rev().find(|it| it.name == *wanted);
            let is_it = |operation: &&OperationRow| {
                named.as_ref().is_some_and(|it| it.operation == operation.id)
            };
            operations.iter().find(is_it).and_then(end)
        }
        Point::Seq(seq) => boundaries.iter().find(|it| it.seq == *seq).copied(),
    })
}

/// Tells whether everything that was there at a point is on a line.
fn is_on(outline: &[Outline], at: &SessionAt) -> bool {
    let messages: HashSet<&MessageId> = outline.iter().map(|it| &it.message).collect();
    let parts: HashSet<&PartId> =
        outline.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
    at.messages.iter().all(|it| {
        messages.contains(&it.message.id) && it.parts.iter().all(|part| parts.contains(&part.id))
    })
}

fn outline_of(at: &SessionAt) -> Vec<Outline> {
    let outline = |it: &turnstone_store::WithParts| Outline {
        message: it.message.id.clone(),
        is_user: matches!(it.message.body, turnstone_core::model::MessageBody::User(_)),
        parts: it.parts.iter().map(|part| (part.id.clone(), String::new())).collect(),
        appeared: it.parts.iter().map(|_| Cursor(0)).collect(),
    };
    at.messages.iter().map(outline).collect()
}

/// Where the head is on a line for what was there at a point, or where it was then.
fn head_in(outline: &[Outline], at: &SessionAt, then: Option<&Head>) -> HeadMove {
    let messages: HashSet<&MessageId> = at.messages.iter().map(|it| &it.message.id).collect();
    let parts: HashSet<&PartId> =
        at.messages.iter().flat_map(|it| it.parts.iter().map(|part| &part.id)).collect();
    for it in outline {
        let message = it.message.clone();
        let stood = then.is_some_and(|head| head.message == message && head.part.is_none());
        if stood || !messages.contains(&message) {
            return HeadMove::To(Head { message, part: None });
        }
        let is_behind = |part: &&(PartId, String)| {
            let stood = then.is_some_and(|head| head.part.as_ref() == Some(&part.0));
            stood || !parts.contains(&part.0)
        };
        if let Some((part, _)) = it.parts.iter().find(is_behind) {
            return HeadMove::To(Head { message, part: Some(part.clone()) });
        }
    }
    HeadMove::Tip
}

/// What leaves the line for another one.
fn switch(present: &[Outline], other: &[Outline], line: Seq) -> Switch {
    let messages: HashSet<&MessageId> = other.iter().map(|it| &it.message).collect();
    let parts: HashSet<&PartId> =
        other.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
    let (stay, leave): (Vec<&Outline>, Vec<&Outline>) =
        present.iter().partition(|it| messages.contains(&it.message));
    let gone = stay.iter().flat_map(|it| &it.parts).filter(|(id, _)| !parts.contains(id));
    Switch {
        messages: leave.iter().map(|it| it.message.clone()).collect(),
        parts: gone.map(|(id, _)| id.clone()).collect(),
        line,
    }
}
