//! OpenCode's revert, unrevert and cleanup, built on change sets: the boundary is its own, what
//! happens to files is ours (promises 1 to 3).

use std::collections::BTreeSet;
use std::path::Path;

use turnstone_core::change::Root;
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::PartBody;
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_core::revert::find_boundary;
use turnstone_store::{Context, OperationRow, TurnRow};

use crate::engine::Engine;
use crate::error::Result;
use crate::line::{END, Line, Spot};
use crate::past::Past;
use crate::undo::{Gathered, IMPORTED, OperationReport, UndoOptions, UndoPlan};

/// What becomes of files when the head moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    /// They go where the conversation goes.
    Follow,
    /// They are as at the end of the session.
    StayAtEnd,
}

impl Engine {
    /// Plans to revert a session to a message or a part; changes nothing. Nothing if there is no
    /// such boundary.
    ///
    /// Reverting again moves the boundary, both ways: what is before it again is brought back.
    ///
    /// # Errors
    ///
    /// A fact could not be obtained: then there is no plan.
    pub fn plan_revert(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        part: Option<&PartId>,
    ) -> Result<Option<UndoPlan>> {
        self.recover_session(ctx, session)?;
        let (line, operations) = self.line_of(ctx, session)?;
        let Some(head) = find_boundary(line.spoken(), message, part) else {
            return Ok(None);
        };
        let files = Files::Follow;
        self.plan_to(ctx, session, (&line, &operations), Some(head), files).map(Some)
    }

    /// Reverts the conversation of a session to a message; its files are as they are at its end,
    /// also those a revert before took back. Nothing if there is no such boundary.
    ///
    /// # Errors
    ///
    /// As [`Engine::apply`].
    pub fn revert_conversation(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<Option<OperationReport>> {
        self.recover_session(ctx, session)?;
        let (line, operations) = self.line_of(ctx, session)?;
        let Some(head) = find_boundary(line.spoken(), message, None) else {
            return Ok(None);
        };
        let plan =
            self.plan_to(ctx, session, (&line, &operations), Some(head), Files::StayAtEnd)?;
        self.apply(ctx, &plan).map(Some)
    }

    /// Plans to bring back everything behind the head; nothing if the session stands at its end.
    ///
    /// # Errors
    ///
    /// As [`Engine::plan_revert`].
    pub fn plan_unrevert(&self, ctx: &Context, session: &SessionId) -> Result<Option<UndoPlan>> {
        self.recover_session(ctx, session)?;
        let (line, operations) = self.line_of(ctx, session)?;
        match &line.head {
            None => Ok(None),
            Some(_) => {
                let line = (&line, operations.as_slice());
                self.plan_to(ctx, session, line, None, Files::Follow).map(Some)
            }
        }
    }

    /// Plans to move the head to a message or a part as it is given; nothing: to the end.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoMessage`], [`turnstone_store::StoreError::NoPart`], or as
    /// [`Engine::plan_revert`].
    pub fn plan_head(
        &self,
        ctx: &Context,
        session: &SessionId,
        head: Option<Head>,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        if let Some(head) = &head {
            self.store.read(ctx, |r| {
                r.get_message(session, &head.message)?;
                head.part.as_ref().map(|part| r.get_part(session, part)).transpose()
            })?;
        }
        let (line, operations) = self.line_of(ctx, session)?;
        self.plan_to(ctx, session, (&line, &operations), head, Files::Follow)
    }

    /// Reverts a session; nothing if there is no such boundary, and nothing has changed.
    ///
    /// Where files were to move and none could, the report says so and the session stands where it
    /// stood: its `revert` field is what it was, as if there had been no such boundary.
    ///
    /// # Errors
    ///
    /// As [`Engine::apply`].
    pub fn revert(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        part: Option<&PartId>,
    ) -> Result<Option<OperationReport>> {
        let plan = self.plan_revert(ctx, session, message, part)?;
        plan.map(|plan| self.apply(ctx, &plan)).transpose()
    }

    /// Takes a revert back; nothing if the session stands at its end.
    ///
    /// # Errors
    ///
    /// As [`Engine::apply`].
    pub fn unrevert(&self, ctx: &Context, session: &SessionId) -> Result<Option<OperationReport>> {
        let plan = self.plan_unrevert(ctx, session)?;
        plan.map(|plan| self.apply(ctx, &plan)).transpose()
    }

    /// Hides what is behind the head, as a prompt does (R19); nothing happens at the end.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn cleanup(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        self.recover_session(ctx, session)?;
        self.branch(ctx, session).map(drop)
    }

    pub(crate) fn line_of(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<(Line, Vec<OperationRow>)> {
        Ok(self.store.read(ctx, |r| Ok((Line::read(r, session)?, r.operations(session)?)))?)
    }

    /// Plans to bring files and conversation to a place of the line.
    fn plan_to(
        &self,
        ctx: &Context,
        session: &SessionId,
        (line, operations): (&Line, &[OperationRow]),
        head: Option<Head>,
        files: Files,
    ) -> Result<UndoPlan> {
        let (there, here) = (line.spot(head.as_ref()), line.here());
        let touched = there.min(here);
        let turns: Vec<&TurnRow> =
            line.shown().into_iter().filter(|it| it.2 > touched).map(|it| it.0).collect();
        let mut changes = self.changes_of(ctx, session, &turns)?;
        let apart = Past::apart(operations);
        changes.retain_mut(|held| {
            // What a branch has hidden stays as it is.
            let Some(at) = line.change(session, &held.turn, &held.row) else { return false };
            held.wanted = match at {
                at if at >= there && files == Files::Follow => Extent::All,
                at if at >= here => apart.taken(&held.row.set.id),
                _ => held.taken.clone(),
            };
            files == Files::Follow || held.wanted != held.taken
        });
        let kind = if there > here { OperationKind::Redo } else { OperationKind::Undo };
        let (from, to) = (touched, there.max(here));
        let within: Vec<&TurnRow> =
            line.shown().into_iter().filter(|it| it.2 > from && it.1 < to).map(|it| it.0).collect();
        let mut aside = self.aside_to(ctx, session, line.moment(there), line.moment(here))?;
        if kind == OperationKind::Undo {
            aside.withdrawn = self.granted_in(ctx, session, &within)?;
        }
        if files == Files::Follow {
            aside.not_covered = self.imported(ctx, session, line, (from, to))?;
        }
        let turns: Vec<TurnId> = within.iter().map(|turn| turn.id.clone()).collect();
        let head = head.map_or(HeadMove::Tip, HeadMove::To);
        let gathered = Gathered { kind, turns, also: Vec::new(), changes, head, aside };
        self.plan(ctx, session, gathered, &UndoOptions::default())
    }

    /// The files of turns that were run elsewhere: the conversation moves, they do not (R21).
    fn imported(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Line,
        (from, to): (Spot, Spot),
    ) -> Result<Vec<(Root, RelPath, String)>> {
        let first = line.shown().first().map_or(END, |it| it.1);
        let outline = line.outline.iter().enumerate();
        let elsewhere =
            outline.filter(|(at, _)| (*at, usize::MAX) >= from && (*at, 0) < to.min(first));
        let patches = elsewhere.flat_map(|(at, it)| {
            let spots = it.parts.iter().enumerate().map(move |(nth, part)| ((at, nth + 1), part));
            spots.filter(|(spot, (_, kind))| *spot >= from && kind == "patch").map(|(_, it)| &it.0)
        });
        let patches: Vec<&PartId> = patches.collect();
        if patches.is_empty() {
            return Ok(Vec::new());
        }
        let session = self.store.read(ctx, |r| r.get_session(session))?;
        let mut files = BTreeSet::new();
        for id in patches {
            let part = self.store.read(ctx, |r| r.get_part(&session.id, id))?;
            if let PartBody::Patch(patch) = part.body {
                files.extend(patch.files);
            }
        }
        let root = Root { store: String::new(), path: session.directory.clone() };
        let below = |file: &String| {
            let path = Path::new(file);
            let inside = path.strip_prefix(&session.directory).unwrap_or(path);
            let text = inside.to_string_lossy();
            text.trim_start_matches('/').parse::<RelPath>().ok()
        };
        let paths = files.iter().filter_map(below);
        Ok(paths.map(|path| (root.clone(), path, IMPORTED.to_owned())).collect())
    }
}
