//! The line of a session: its messages and parts in order, the turns they belong to, and the head.
//!
//! Places are compared by their position in the line, never by ids or times.

use std::collections::HashMap;

use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::operation::SessionHead;
use turnstone_core::revert::MessageOutline;
use turnstone_core::time::LogCursor;
use turnstone_store::{
    ChangeSetRow, Context, MessageOutlineRow, OperationRow, ReadTx, Store, StoreError, TurnRow,
};

/// A place: a message, and a part of it counted from one; zero is the message itself.
pub(crate) type TimelinePosition = (usize, usize);

/// Behind everything.
pub(crate) const TIMELINE_END: TimelinePosition = (usize::MAX, 0);

/// Where everything of a session is.
pub(crate) struct Timeline {
    pub(crate) outline: Vec<MessageOutlineRow>,
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) head: Option<SessionHead>,
    messages: HashMap<MessageId, usize>,
    parts: HashMap<PartId, TimelinePosition>,
}

impl Timeline {
    pub(crate) fn read(reader: &ReadTx<'_>, session: &SessionId) -> Result<Self, StoreError> {
        let outline = reader.messages().outline(session)?;
        let (turns, head) = (reader.turns().list(session)?, reader.sessions().head(session)?);
        Ok(Self::new(outline, turns, head))
    }

    /// Reads the timeline of a session with its operations.
    pub(crate) fn read_with_operations(
        store: &Store,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<(Self, Vec<OperationRow>), StoreError> {
        store.read(ctx, |r| Ok((Self::read(r, session)?, r.operations().list(session)?)))
    }

    pub(crate) fn new(
        outline: Vec<MessageOutlineRow>,
        turns: Vec<TurnRow>,
        head: Option<SessionHead>,
    ) -> Self {
        let messages = outline.iter().enumerate().map(|(at, it)| (it.message.clone(), at));
        let messages = messages.collect();
        let positions = |(at, it): (usize, &MessageOutlineRow)| {
            let ids: Vec<_> = it.parts.iter().map(|(id, _)| id.clone()).collect();
            ids.into_iter().enumerate().map(move |(nth, id)| (id, (at, nth + 1)))
        };
        let parts = outline.iter().enumerate().flat_map(positions).collect();
        Self { outline, turns, head, messages, parts }
    }

    /// The messages, as the boundary of a revert is looked for in them.
    pub(crate) fn message_outlines(&self) -> impl Iterator<Item = MessageOutline<'_>> {
        self.outline.iter().map(|it| MessageOutline {
            message: &it.message,
            is_user: it.is_user,
            parts: &it.parts,
        })
    }

    /// Where a head is; one whose message is gone is at the end.
    pub(crate) fn position_of(&self, head: Option<&SessionHead>) -> TimelinePosition {
        let Some(head) = head else { return TIMELINE_END };
        let part = head.part.as_ref().and_then(|part| self.parts.get(part)).copied();
        let message = || self.messages.get(&head.message).map(|at| (*at, 0));
        part.or_else(message).unwrap_or(TIMELINE_END)
    }

    /// True if the message of a head, and its part, are on the line.
    pub(crate) fn contains_head(&self, head: &SessionHead) -> bool {
        let part = head.part.as_ref();
        self.messages.contains_key(&head.message)
            && part.is_none_or(|part| self.parts.contains_key(part))
    }

    /// The position of the head.
    pub(crate) fn head_position(&self) -> TimelinePosition {
        self.position_of(self.head.as_ref())
    }

    /// Where a turn begins; nothing if a branch has hidden it.
    pub(crate) fn turn_start(&self, turn: &TurnRow) -> Option<TimelinePosition> {
        self.messages.get(&turn.message).map(|at| (*at, 0))
    }

    /// The turns that no branch has hidden, undone ones included, each with its start and the start of the
    /// next.
    pub(crate) fn turns_on_timeline(&self) -> Vec<(&TurnRow, TimelinePosition, TimelinePosition)> {
        let begins = |turn| Some((turn, self.turn_start(turn)?));
        let mut found: Vec<(&TurnRow, TimelinePosition)> =
            self.turns.iter().filter_map(begins).collect();
        found.sort_by_key(|(_, at)| *at);
        let next = |nth: usize| found.get(nth + 1).map_or(TIMELINE_END, |(_, at)| *at);
        found.iter().enumerate().map(|(nth, (turn, at))| (*turn, *at, next(nth))).collect()
    }

    /// The turns of which a part lies between two positions.
    pub(crate) fn turns_within(
        &self,
        from: TimelinePosition,
        to: TimelinePosition,
    ) -> Vec<&TurnRow> {
        let turns = self.turns_on_timeline().into_iter();
        turns.filter(|it| it.2 > from && it.1 < to).map(|it| it.0).collect()
    }

    /// The turn of a position.
    pub(crate) fn turn_at(&self, position: TimelinePosition) -> Option<&TurnRow> {
        self.turns_on_timeline()
            .into_iter()
            .rev()
            .find(|it| it.1 <= position && position != TIMELINE_END)
            .map(|it| it.0)
    }

    /// Where a part is.
    pub(crate) fn part_position(&self, part: &PartId) -> Option<TimelinePosition> {
        self.parts.get(part).copied()
    }

    /// The message of a part.
    pub(crate) fn message_of(&self, part: &PartId) -> Option<&MessageId> {
        self.part_position(part).and_then(|(at, _)| self.outline.get(at)).map(|it| &it.message)
    }

    /// The turns that are before the head, wholly or with their beginning.
    pub(crate) fn before_head(&self) -> Vec<&TurnRow> {
        let here = self.head_position();
        self.turns_on_timeline().into_iter().filter(|it| it.1 < here).map(|it| it.0).collect()
    }

    /// The turns that are behind the head, wholly or with their end.
    pub(crate) fn after_head(&self) -> Vec<&TurnRow> {
        let here = self.head_position();
        self.turns_on_timeline().into_iter().filter(|it| it.2 > here).map(|it| it.0).collect()
    }

    /// True if the call of a change set is on the line; a call that is not named belongs to its turn.
    pub(crate) fn contains_change_set(&self, session: &SessionId, row: &ChangeSetRow) -> bool {
        let part = row.set.part.as_ref().filter(|_| row.set.session == *session);
        part.is_none_or(|part| self.parts.contains_key(part))
    }

    /// Where a change set of a turn is; nothing if it is not on the line.
    ///
    /// One without a call, or of a session the turn began, is behind the last part of the turn
    /// that was there when it was opened.
    pub(crate) fn change_set_position(
        &self,
        session: &SessionId,
        turn: &TurnId,
        row: &ChangeSetRow,
    ) -> Option<TimelinePosition> {
        let (_, begin, end) = self.turns_on_timeline().into_iter().find(|it| it.0.id == *turn)?;
        if let Some(part) = row.set.part.as_ref().filter(|_| row.set.session == *session) {
            return self.parts.get(part).copied();
        }
        let messages = self.outline.iter().enumerate().skip(begin.0).take_while(|it| it.0 < end.0);
        let parts = messages.flat_map(|(at, it)| {
            it.part_cursors.iter().enumerate().map(move |(nth, cursor)| ((at, nth + 1), *cursor))
        });
        let before = parts.filter(|(_, cursor)| *cursor < row.opened);
        Some(before.map(|(position, _)| position).max().unwrap_or(begin))
    }

    /// The place in the log at which a spot of the line was not there yet.
    pub(crate) fn cursor_before(&self, position: TimelinePosition) -> LogCursor {
        let shown = self.turns_on_timeline();
        let Some((turn, begin, _)) = shown.iter().rev().find(|it| it.1 <= position) else {
            return LogCursor(0);
        };
        if position == TIMELINE_END {
            return turn.span.1;
        }
        let appeared =
            self.outline.get(position.0).and_then(|it| it.part_cursors.get(position.1.max(1) - 1));
        match appeared {
            // A part that a jump restored appears later than its turn.
            Some(at) if position != *begin && *at < turn.span.1 => LogCursor(at.0 - 1),
            Some(_) | None => turn.span.0,
        }
    }
}
