//! The line of a session: its messages and parts in order, the turns they belong to, and the head.
//!
//! Places are compared by their position in the line, never by ids or times.

use std::collections::HashMap;

use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::operation::Head;
use turnstone_core::revert::Spoken;
use turnstone_core::time::Cursor;
use turnstone_store::{ChangeRow, Outline, Reader, TurnRow};

/// A place: a message, and a part of it counted from one; zero is the message itself.
pub(crate) type Spot = (usize, usize);

/// Behind everything.
pub(crate) const END: Spot = (usize::MAX, 0);

/// Where everything of a session is.
pub(crate) struct Line {
    pub(crate) outline: Vec<Outline>,
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) head: Option<Head>,
    messages: HashMap<MessageId, usize>,
    parts: HashMap<PartId, Spot>,
}

impl Line {
    pub(crate) fn read(
        reader: &Reader<'_>,
        session: &SessionId,
    ) -> Result<Self, turnstone_store::StoreError> {
        let outline = reader.outline(session)?;
        let (turns, head) = (reader.turns(session)?, reader.head(session)?);
        Ok(Self::new(outline, turns, head))
    }

    pub(crate) fn new(outline: Vec<Outline>, turns: Vec<TurnRow>, head: Option<Head>) -> Self {
        let messages = outline.iter().enumerate().map(|(at, it)| (it.message.clone(), at));
        let messages = messages.collect();
        let spots = |(at, it): (usize, &Outline)| {
            let ids: Vec<_> = it.parts.iter().map(|(id, _)| id.clone()).collect();
            ids.into_iter().enumerate().map(move |(nth, id)| (id, (at, nth + 1)))
        };
        let parts = outline.iter().enumerate().flat_map(spots).collect();
        Self { outline, turns, head, messages, parts }
    }

    /// The messages, as the boundary of a revert is looked for in them.
    pub(crate) fn spoken(&self) -> impl Iterator<Item = Spoken<'_>> {
        self.outline.iter().map(|it| Spoken {
            message: &it.message,
            is_user: it.is_user,
            parts: &it.parts,
        })
    }

    /// Where a head is; one whose message is gone is at the end.
    pub(crate) fn spot(&self, head: Option<&Head>) -> Spot {
        let Some(head) = head else { return END };
        let part = head.part.as_ref().and_then(|part| self.parts.get(part)).copied();
        let message = || self.messages.get(&head.message).map(|at| (*at, 0));
        part.or_else(message).unwrap_or(END)
    }

    /// Where the session stands.
    pub(crate) fn here(&self) -> Spot {
        self.spot(self.head.as_ref())
    }

    /// Where a turn begins; nothing if a branch has hidden it.
    pub(crate) fn begin_of(&self, turn: &TurnRow) -> Option<Spot> {
        self.messages.get(&turn.message).map(|at| (*at, 0))
    }

    /// The turns on the line with their beginnings, and with the beginning of the one after each.
    pub(crate) fn shown(&self) -> Vec<(&TurnRow, Spot, Spot)> {
        let begins = |turn| Some((turn, self.begin_of(turn)?));
        let mut found: Vec<(&TurnRow, Spot)> = self.turns.iter().filter_map(begins).collect();
        found.sort_by_key(|(_, at)| *at);
        let next = |nth: usize| found.get(nth + 1).map_or(END, |(_, at)| *at);
        found.iter().enumerate().map(|(nth, (turn, at))| (*turn, *at, next(nth))).collect()
    }

    /// The turn a spot belongs to.
    pub(crate) fn turn_at(&self, spot: Spot) -> Option<&TurnRow> {
        self.shown().into_iter().rev().find(|it| it.1 <= spot && spot != END).map(|it| it.0)
    }

    /// Where a part is.
    pub(crate) fn part(&self, part: &PartId) -> Option<Spot> {
        self.parts.get(part).copied()
    }

    /// The message of a part.
    pub(crate) fn message_of(&self, part: &PartId) -> Option<&MessageId> {
        self.part(part).and_then(|(at, _)| self.outline.get(at)).map(|it| &it.message)
    }

    /// The turns that are before the head, wholly or with their beginning.
    pub(crate) fn before_head(&self) -> Vec<&TurnRow> {
        let here = self.here();
        self.shown().into_iter().filter(|it| it.1 < here).map(|it| it.0).collect()
    }

    /// The turns that are behind the head, wholly or with their end.
    pub(crate) fn behind_head(&self) -> Vec<&TurnRow> {
        let here = self.here();
        self.shown().into_iter().filter(|it| it.2 > here).map(|it| it.0).collect()
    }

    /// True if the call of a change set is on the line; a call that is not named belongs to its turn.
    pub(crate) fn shows(&self, session: &SessionId, row: &ChangeRow) -> bool {
        let part = row.set.part.as_ref().filter(|_| row.set.session == *session);
        part.is_none_or(|part| self.parts.contains_key(part))
    }

    /// Where a change set of a turn is; nothing if it is not on the line.
    ///
    /// One without a call, or of a session the turn began, is behind the last part of the turn
    /// that was there when it was opened.
    pub(crate) fn change(
        &self,
        session: &SessionId,
        turn: &TurnId,
        row: &ChangeRow,
    ) -> Option<Spot> {
        let (_, begin, end) = self.shown().into_iter().find(|it| it.0.id == *turn)?;
        if let Some(part) = row.set.part.as_ref().filter(|_| row.set.session == *session) {
            return self.parts.get(part).copied();
        }
        let messages = self.outline.iter().enumerate().skip(begin.0).take_while(|it| it.0 < end.0);
        let parts = messages.flat_map(|(at, it)| {
            it.appeared.iter().enumerate().map(move |(nth, cursor)| ((at, nth + 1), *cursor))
        });
        let before = parts.filter(|(_, cursor)| *cursor < row.opened);
        Some(before.map(|(spot, _)| spot).max().unwrap_or(begin))
    }

    /// The place in the log at which a spot of the line was not there yet.
    pub(crate) fn moment(&self, spot: Spot) -> Cursor {
        let shown = self.shown();
        let Some((turn, begin, _)) = shown.iter().rev().find(|it| it.1 <= spot) else {
            return Cursor(0);
        };
        if spot == END {
            return turn.span.1;
        }
        let appeared = self.outline.get(spot.0).and_then(|it| it.appeared.get(spot.1.max(1) - 1));
        match appeared {
            // A part that a jump brought back appears later than its turn.
            Some(at) if spot != *begin && *at < turn.span.1 => Cursor(at.0 - 1),
            Some(_) | None => turn.span.0,
        }
    }
}
