//! The turns of all sessions in a checkout: which one an undo or redo without arguments is about.
//!
//! Sessions that another one started belong to that one, and archived sessions are left alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::PathImage;
use turnstone_core::id::{ProjectId, SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::time::LogCursor;
use turnstone_store::{Context, OperationRow, ProjectTurnRow, Store, StoreError};

use crate::error::Result;
use crate::history::session_changes::SessionChanges;
use crate::history::timeline::Timeline;
use crate::history::undo::{
    ChangeSetUndoState, UndoAspect, UndoSelection, UndoTarget, decode_leader, decode_other_turns,
    decode_plan, decode_report, decode_turns, find_concurrent_writes,
};

/// Turns read at once.
const TURN_PAGE_SIZE: usize = 100;
/// Directories that are named where turns can be undone.
const MAX_NAMED_DIRECTORIES: usize = 3;
/// After everything in the log.
const LOG_END: LogCursor = LogCursor(i64::MAX);

/// One checkout of a project: what commands without a session work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutScope {
    /// The project.
    pub project: ProjectId,
    /// The root of the checkout.
    pub root: PathBuf,
}

impl CheckoutScope {
    fn contains(&self, directory: &str) -> bool {
        !directory.is_empty() && Path::new(directory).starts_with(&self.root)
    }
}

/// Why no turn of a checkout could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum TurnChoiceError {
    /// No finished turn is still done.
    #[error("the project in {} has nothing left to undo", .root.display())]
    NothingToUndo {
        /// The root of the checkout.
        root: PathBuf,
        /// Turns that have not ended.
        running: Vec<TurnId>,
        /// Directories outside of the checkout with turns of the project that can be undone there.
        elsewhere: Vec<String>,
    },
    /// No undo has an effect any more.
    #[error("the project in {} has nothing to redo", .0.display())]
    NothingToRedo(PathBuf),
    /// Fewer turns than asked for can be undone.
    #[error("only {found} of the last {wanted} turns can be undone")]
    TooFewTurns {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
}

/// What an undo without arguments is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoChoice {
    /// The session of the newest of the turns.
    pub session: SessionId,
    /// The newest of the turns.
    pub target: UndoTarget,
    /// The other turns.
    pub other_turns: Vec<(SessionId, TurnId)>,
    /// Newer turns that have not ended and so stay.
    pub running: Vec<(SessionId, TurnId)>,
    /// Newer turns that are passed over: all that changed while they ran was changed by an undo or a redo.
    pub passed_over: Vec<(SessionId, TurnId)>,
}

/// Reads the turns of a checkout.
#[derive(Clone)]
pub struct CheckoutTurns {
    pub(crate) store: Arc<Store>,
    pub(crate) selection: UndoSelection,
    pub(crate) changes: SessionChanges,
}

impl CheckoutTurns {
    /// The turns of a checkout, newest first, with those that a later prompt abandoned.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn list(&self, ctx: &Context, scope: &CheckoutScope) -> Result<Vec<ProjectTurnRow>> {
        let mut found = Vec::new();
        self.visit(ctx, scope, &mut |row| {
            found.push(row);
            Ok(true)
        })?;
        Ok(found)
    }

    /// The turn with this number: 1 is the newest turn of the checkout. Turns that a later prompt abandoned
    /// and imported ones have no number; undone and running ones have.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn find_by_number(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
        number: usize,
    ) -> Result<Option<(SessionId, TurnId)>> {
        let (mut left, mut found) = (number, None);
        self.visit(ctx, scope, &mut |row| {
            if row.turn.hidden || row.turn.imported {
                return Ok(true);
            }
            left -= usize::from(left > 0);
            if left == 0 && number > 0 {
                found = Some((row.session, row.turn.id));
            }
            Ok(left > 0)
        })?;
        Ok(found)
    }

    /// Chooses the newest `count` finished turns that are not undone yet, whichever sessions they belong to.
    ///
    /// Imported turns are chosen only if no other turn can be undone: an import makes nothing newer.
    ///
    /// A turn is not undone yet if the conversation shows it, some of its files are not undone, and the newest
    /// operation on it was not an undo that left nothing for another one.
    ///
    /// # Errors
    ///
    /// [`TurnChoiceError::NothingToUndo`], [`TurnChoiceError::TooFewTurns`], or a fact could not be obtained.
    pub fn choose_undo(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
        count: usize,
        aspect: UndoAspect,
    ) -> Result<UndoChoice> {
        self.store.recover_turns(&ctx.without_preconditions())?;
        let mut timelines = HashMap::new();
        let (mut running, mut imported, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
        let mut passed_over = Vec::new();
        self.visit(ctx, scope, &mut |row| {
            if row.turn.hidden {
                return Ok(true);
            }
            if row.turn.state.is_open() {
                running.push((row.session, row.turn.id));
            } else if row.turn.imported {
                imported.push(row);
            } else if self.is_undoable(ctx, &row, aspect, &mut timelines)? {
                let is_other = aspect != UndoAspect::Conversation
                    && self.is_changed_by_operations(ctx, &row)?;
                let list = if is_other { &mut passed_over } else { &mut chosen };
                list.push((row.session, row.turn.id));
            }
            Ok(chosen.len() < count)
        })?;
        if chosen.is_empty() {
            imported.sort_by_key(|row| std::cmp::Reverse(row.turn.started));
            for row in imported {
                if chosen.len() < count && self.is_undoable(ctx, &row, aspect, &mut timelines)? {
                    chosen.push((row.session, row.turn.id));
                }
            }
        }
        let found = chosen.len();
        let mut chosen = chosen.into_iter();
        match chosen.next() {
            None => {
                let (root, running) =
                    (scope.root.clone(), running.into_iter().map(|(_, turn)| turn));
                let running = running.collect();
                let elsewhere = self.find_undoable_elsewhere(ctx, scope, aspect, &mut timelines)?;
                Err(TurnChoiceError::NothingToUndo { root, running, elsewhere }.into())
            }
            Some(_) if found < count => {
                Err(TurnChoiceError::TooFewTurns { wanted: count, found }.into())
            }
            Some((session, turn)) => Ok(UndoChoice {
                session,
                target: UndoTarget::Turn(turn),
                other_turns: chosen.collect(),
                running,
                passed_over,
            }),
        }
    }

    /// Directories outside of the checkout in which a turn of the project can be undone, the newest first.
    fn find_undoable_elsewhere(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
        aspect: UndoAspect,
        timelines: &mut HashMap<SessionId, Timeline>,
    ) -> Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        self.visit_project(ctx, &scope.project, &mut |row| {
            let is_candidate = !scope.contains(&row.directory)
                && !found.contains(&row.directory)
                && !row.turn.hidden
                && !row.turn.imported
                && !row.turn.state.is_open();
            if is_candidate && self.is_undoable(ctx, &row, aspect, timelines)? {
                found.push(row.directory);
            }
            Ok(found.len() < MAX_NAMED_DIRECTORIES)
        })?;
        Ok(found)
    }

    /// The session whose newest undo is the newest one in the checkout that still has an effect.
    ///
    /// # Errors
    ///
    /// [`TurnChoiceError::NothingToRedo`], or a fact could not be obtained.
    pub fn choose_redo(&self, ctx: &Context, scope: &CheckoutScope) -> Result<SessionId> {
        let sessions =
            self.store.read(ctx, |r| r.operations().sessions_with_undo(&scope.project))?;
        let mut best: Option<(LogCursor, SessionId)> = None;
        for (session, directory, newest) in sessions {
            // No operation of this session, or of the following ones, is newer.
            if best.as_ref().is_some_and(|(planned, _)| *planned > newest) {
                break;
            }
            if scope.contains(&directory)
                && let Some((planned, session)) = self.selection.find_newest_undo(ctx, &session)?
                && best.as_ref().is_none_or(|(best, _)| *best < planned)
            {
                best = Some((planned, session));
            }
        }
        best.map(|(_, session)| session)
            .ok_or_else(|| TurnChoiceError::NothingToRedo(scope.root.clone()).into())
    }

    /// The sessions of a checkout in which something was undone, newest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn list_sessions_with_undo(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
    ) -> Result<Vec<SessionId>> {
        let sessions =
            self.store.read(ctx, |r| r.operations().sessions_with_undo(&scope.project))?;
        let here = sessions.into_iter().filter(|(_, directory, _)| scope.contains(directory));
        Ok(here.map(|(session, ..)| session).collect())
    }

    /// Calls `visit` with the turns of a checkout, newest first, until it returns false. A fork's copy of a turn
    /// comes at the time of the fork and not of the turn: it is left out where the original is listed.
    fn visit(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
        visit: &mut dyn FnMut(ProjectTurnRow) -> Result<bool>,
    ) -> Result<()> {
        let mut repeats = HashMap::new();
        self.visit_project(ctx, &scope.project, &mut |row| {
            let is_listed = scope.contains(&row.directory)
                && !(row.predates_session
                    && self.repeats_original(ctx, scope, &row.session, &mut repeats)?);
            if is_listed { visit(row) } else { Ok(true) }
        })
    }

    /// Calls `visit` with the turns of all checkouts of a project, newest first, until it returns false.
    fn visit_project(
        &self,
        ctx: &Context,
        project: &ProjectId,
        visit: &mut dyn FnMut(ProjectTurnRow) -> Result<bool>,
    ) -> Result<()> {
        let mut before = LOG_END;
        loop {
            let page = self
                .store
                .read(ctx, |r| r.turns().list_in_project(project, before, TURN_PAGE_SIZE))?;
            let Some(last) = page.last() else { return Ok(()) };
            before = last.turn.span.0;
            for row in page {
                if !visit(row)? {
                    return Ok(());
                }
            }
        }
    }

    /// True for a fork of a session that is listed itself; `known` keeps the answers.
    fn repeats_original(
        &self,
        ctx: &Context,
        scope: &CheckoutScope,
        session: &SessionId,
        known: &mut HashMap<SessionId, bool>,
    ) -> Result<bool> {
        if let Some(repeats) = known.get(session) {
            return Ok(*repeats);
        }
        let repeats = self.store.read(ctx, |r| {
            let Some(origin) = r.sessions().get(session)?.origin else { return Ok(false) };
            match r.sessions().get(&origin.session) {
                Ok(original) => Ok(original.parent.is_none()
                    && original.time.archived.is_none()
                    && scope.contains(&original.directory)),
                Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        known.insert(session.clone(), repeats);
        Ok(repeats)
    }

    /// True if the conversation shows a finished turn, and something of it is not undone.
    fn is_undoable(
        &self,
        ctx: &Context,
        row: &ProjectTurnRow,
        aspect: UndoAspect,
        timelines: &mut HashMap<SessionId, Timeline>,
    ) -> Result<bool> {
        if !timelines.contains_key(&row.session) {
            let line = self.store.read(ctx, |r| Timeline::read(r, &row.session))?;
            timelines.insert(row.session.clone(), line);
        }
        let line = timelines.get(&row.session);
        Ok(line.is_some_and(|line| is_before_head(line, &row.turn.id))
            && (aspect == UndoAspect::Conversation || self.has_effect(ctx, row)?))
    }

    /// True if a finished turn has changes, and each path was written by an undo or a redo while its command ran:
    /// none of that can be undone with the turn (R3).
    fn is_changed_by_operations(&self, ctx: &Context, row: &ProjectTurnRow) -> Result<bool> {
        let changes = self.changes.of_turns(ctx, &row.session, &[&row.turn])?;
        let mut has_changes = false;
        for selected in &changes {
            let set = &selected.row.set;
            let written = find_concurrent_writes(&self.store, ctx, &set.root, &[&selected.row])?;
            if !set.changes.iter().all(|change| written.contains_key(&change.path)) {
                return Ok(false);
            }
            has_changes |= !set.changes.is_empty();
        }
        Ok(has_changes)
    }

    /// True if something of a finished turn is not undone.
    fn has_effect(&self, ctx: &Context, row: &ProjectTurnRow) -> Result<bool> {
        let changes = self.changes.of_turns(ctx, &row.session, &[&row.turn])?;
        if is_undone(&changes) {
            return Ok(false);
        }
        let ended = row.turn.span.1;
        let operations = self.store.read(ctx, |r| r.operations().between(ended, LOG_END))?;
        for operation in operations.iter().rev() {
            let is_member = decode_leader(operation)?.is_some();
            if !is_member && refers_to_turn(operation, row)? && operation.done.is_some() {
                let Some(report) = decode_report(operation)?.filter(|it| !it.without_effect) else {
                    continue;
                };
                let covers_files =
                    changes.is_empty() || !decode_plan(operation)?.changes.is_empty();
                let is_complete = covers_files && report.remaining.is_empty();
                return Ok(operation.kind != OperationKind::Undo || !is_complete);
            }
        }
        Ok(true)
    }
}

fn is_before_head(line: &Timeline, turn: &TurnId) -> bool {
    line.before_head().iter().any(|row| row.id == *turn)
}

/// True if there are recorded changes, and all that can be undone are undone.
fn is_undone(changes: &[ChangeSetUndoState]) -> bool {
    let recorded = |selected: &ChangeSetUndoState| -> Vec<bool> {
        let known = selected.row.set.changes.iter().filter(|change| {
            [change.before, change.after].iter().all(|it| PathImage::uncovered_reason(it).is_none())
        });
        known.map(|change| selected.undone.contains_path(&change.path)).collect()
    };
    let undone: Vec<bool> = changes.iter().flat_map(recorded).collect();
    !undone.is_empty() && undone.into_iter().all(|is_undone| is_undone)
}

/// True if an undo, redo or jump was about a turn.
fn refers_to_turn(operation: &OperationRow, row: &ProjectTurnRow) -> Result<bool> {
    match operation.kind {
        OperationKind::Undo | OperationKind::Redo | OperationKind::Jump => {}
        OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => return Ok(false),
    }
    let is_other =
        |(session, turn): &(SessionId, TurnId)| *session == row.session && *turn == row.turn.id;
    Ok(decode_turns(operation)?.contains(&row.turn.id)
        || decode_other_turns(operation)?.iter().any(is_other))
}
