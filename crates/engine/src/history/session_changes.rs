//! What the calls of a session changed: the change sets of its turns, shown as differences, and the
//! summary that is stored with the session. Nothing a person or another session did is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Number;
use turnstone_core::change::{ChangeClaim, ChangeRoot, Evidence, FileChange, find_own_paths};
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::model::{ChangeSummary, SessionFileDiff};
use turnstone_core::operation::{SessionHead, UndoneChangeSet};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::PathDiff;
use turnstone_store::{ChangeSetRow, CloseChangeSet, Context, Store, TurnRow};

use crate::captures::root_overlap::RootOverlap;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::diff::{DiffFormat, SessionDiff, TurnTrace};
use crate::history::diff_event_size::{can_fit_event, trim_to_event};
use crate::history::patch_text::join_file_steps;
use crate::history::timeline::Timeline;
use crate::history::undo::{
    ChangeSetUndoState, PathHistory, is_within_turn, list_descendants, to_claim,
};

/// The way of every path of a root, and the least certain evidence for a part of it.
type RootHistories = BTreeMap<RelPath, (PathHistory, Evidence)>;

/// The way of every path, root by root.
type PathHistories = BTreeMap<ChangeRoot, RootHistories>;

/// The new summary of the changes of a session.
#[derive(Clone)]
pub(crate) enum ChangeSummaryUpdate {
    /// It has changed nothing: the stored summary stays.
    Unchanged,
    /// These are the figures.
    Counts(ChangeSummary),
    /// The captures cannot be read: there is no summary.
    Unknown,
}

impl ChangeSummaryUpdate {
    /// Stores it with the session, if it differs; clients get an event.
    pub(crate) fn write(
        &self,
        tx: &turnstone_store::Tx<'_>,
        session: &SessionId,
    ) -> turnstone_store::Result<()> {
        let summary = match self {
            Self::Unchanged => return Ok(()),
            Self::Counts(summary) => Some(summary.clone()),
            Self::Unknown => None,
        };
        let now = Number::from(tx.now().0);
        tx.sessions().update(session, |session| {
            if session.summary != summary {
                (session.summary, session.time.updated) = (summary, now);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// What the calls of a session changed, and the summary that is stored with it.
#[derive(Clone)]
pub(crate) struct SessionChanges {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
}

impl SessionChanges {
    /// What the turns behind a head changed, as clients are shown it after a revert: whether a file
    /// could be restored or not. `None` if it is unknown, or too large for one event.
    pub(crate) fn diff_after_head(
        &self,
        ctx: &Context,
        session: &SessionId,
        head: &SessionHead,
    ) -> Result<Option<Vec<SessionFileDiff>>> {
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let there = line.position_of(Some(head));
        let mut changes = self.of_session(ctx, session, &line)?;
        changes.retain(|selected| {
            line.change_set_position(session, &selected.turn, &selected.row)
                .is_some_and(|at| at >= there)
        });
        if !can_fit_event(changes.iter().map(|selected| selected.row.set.changes.len()).sum()) {
            return Ok(None);
        }
        let whole = |_: &ChangeSetUndoState, _: &RelPath| (true, false);
        let found = self.diff(ctx, session, DiffFormat::JsDiff, &changes, whole);
        Ok(found.ok().and_then(|found| trim_to_event(found.files)))
    }

    pub(crate) fn of_session(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
    ) -> Result<Vec<ChangeSetUndoState>> {
        let turns: Vec<&TurnRow> = line.turns.iter().collect();
        self.of_turns(ctx, session, &turns)
    }

    /// The summary to store when a turn of a session ends; `closing` are change sets that the same
    /// commit closes.
    pub(crate) fn summarize_at_turn_end(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
        closing: &[CloseChangeSet],
    ) -> Result<ChangeSummaryUpdate> {
        let touched = self.store.read(ctx, |r| {
            Ok(!r.change_sets().of_turn(session, turn)?.is_empty()
                || !r.sessions().children(session)?.is_empty())
        })?;
        match touched {
            true => self.summarize(ctx, session, &[], closing),
            false => Ok(ChangeSummaryUpdate::Unchanged),
        }
    }

    /// The summary of the changes of a session once `taken` is undone as well.
    ///
    /// A session that changed nothing keeps its summary; an unknown one is not guessed.
    pub(crate) fn summarize(
        &self,
        ctx: &Context,
        session: &SessionId,
        taken: &[UndoneChangeSet],
        closing: &[CloseChangeSet],
    ) -> Result<ChangeSummaryUpdate> {
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let turns: Vec<&TurnRow> = line.turns.iter().collect();
        let mut changes = self.of_turns_closing(ctx, session, &turns, closing)?;
        if changes.is_empty() {
            return Ok(ChangeSummaryUpdate::Unchanged);
        }
        for selected in &mut changes {
            if let Some(then) = taken.iter().find(|it| it.change == selected.row.set.id) {
                selected.undone = then.extent.clone();
            }
        }
        let stands = |selected: &ChangeSetUndoState, path: &RelPath| {
            (true, selected.undone.contains_path(path))
        };
        let diffed = self.diff(ctx, session, DiffFormat::CountsOnly, &changes, stands);
        Ok(diffed.map_or(ChangeSummaryUpdate::Unknown, |found| {
            ChangeSummaryUpdate::Counts(found.summary())
        }))
    }

    /// Stores the summary of the changes of a session, if it differs.
    pub(crate) fn update_summary(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let (summary, name) = (self.summarize(ctx, session, &[], &[])?, session.clone());
        let restate = move |tx: &turnstone_store::Tx<'_>| summary.write(tx, &name);
        Ok(self.store.write(ctx, restate).wait()?)
    }

    /// Shows the changes whose state differs: `taken` says whether a path of a change set was undone
    /// at the one end and at the other.
    pub(crate) fn diff(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: DiffFormat,
        changes: &[ChangeSetUndoState],
        taken: impl Fn(&ChangeSetUndoState, &RelPath) -> (bool, bool),
    ) -> Result<SessionDiff> {
        let own = self.find_own_paths(ctx, changes)?;
        let (mut found, mut histories) = (SessionDiff::default(), PathHistories::new());
        for selected in changes {
            let set = &selected.row.set;
            found.traces.extend(find_trace(selected, &taken));
            for change in &set.changes {
                let (before, after) = taken(selected, &change.path);
                let is_own = own.get(&set.id).is_none_or(|paths| paths.contains(&change.path));
                if before == after || !is_own || change.is_directory_only() {
                    continue;
                }
                if !change.is_covered() {
                    let why = "not covered".to_owned();
                    found.not_covered.push((set.root.clone(), change.path.clone(), why));
                    continue;
                }
                let paths = histories.entry(set.root.clone()).or_default();
                let (path_history, evidence) = paths
                    .entry(change.path.clone())
                    .or_insert_with(|| (PathHistory::default(), set.evidence));
                *evidence = set.evidence.least_certain(*evidence);
                let way = if after { &mut path_history.back } else { &mut path_history.forth };
                way.push((selected.row.span(), change.clone()));
            }
        }
        let home = self.store.read(ctx, |r| r.sessions().get(session))?.directory;
        for (root, paths) in histories {
            self.append_file_diffs(ctx, (&root, &home), form, &paths, &mut found)?;
        }
        Ok(found)
    }

    /// What each window may claim as its own; named writes are not in it: they need no proof.
    fn find_own_paths(
        &self,
        ctx: &Context,
        changes: &[ChangeSetUndoState],
    ) -> Result<BTreeMap<ChangeId, BTreeSet<RelPath>>> {
        let mut by_store: BTreeMap<&str, Vec<&ChangeSetRow>> = BTreeMap::new();
        let windows =
            changes.iter().filter(|selected| selected.row.set.evidence != Evidence::Named);
        for selected in windows {
            by_store.entry(&selected.row.set.root.store).or_default().push(&selected.row);
        }
        let mut own = BTreeMap::new();
        for (store, rows) in by_store {
            let (_, claims) = self.list_concurrent_change_sets(ctx, store, &rows)?;
            for row in rows {
                own.insert(row.set.id.clone(), find_own_paths(&row.set.id, &claims));
            }
        }
        Ok(own)
    }

    fn append_file_diffs(
        &self,
        ctx: &Context,
        (root, home): (&ChangeRoot, &str),
        form: DiffFormat,
        paths: &RootHistories,
        found: &mut SessionDiff,
    ) -> Result<()> {
        let handle = self.snapshots.of_root(root, ctx.now)?;
        let mut changes = Vec::new();
        for (path, (path_history, _)) in paths {
            changes.extend(path_history.three_way_steps().iter().filter_map(|step| {
                Some(FileChange { path: path.clone(), before: step.base?, after: step.target })
            }));
        }
        let diff = handle.reader().diff_changes(&changes, &form.options())?;
        // Its files are shown where they are now.
        let root = &self.snapshots.locate_root(root)?;
        let missing = diff.not_covered.into_iter();
        found
            .not_covered
            .extend(missing.map(|(path, reason)| (root.clone(), path, reason.as_str().to_owned())));
        // The root holds the session's directory: its paths are short.
        let is_home = Path::new(home).starts_with(&root.path);
        let name = |path: &RelPath| match is_home {
            true => path.to_string(),
            false => Path::new(&root.path).join(path.to_string()).to_string_lossy().into_owned(),
        };
        let mut files: BTreeMap<RelPath, Vec<PathDiff>> = BTreeMap::new();
        for file in diff.files {
            files.entry(file.path.clone()).or_default().push(file);
        }
        for (path, steps) in &files {
            let name = name(path);
            found.files.push(join_file_steps(&name, form, steps));
            found.evidence.extend(paths.get(path).map(|(_, evidence)| (name, *evidence)));
        }
        Ok(())
    }

    /// All change sets of a root that overlap some change sets, those of a directory inside of it or around it
    /// among them: their paths are named as in this root.
    ///
    /// A copy of a change set in a fork makes no further claim: it is the same one.
    pub(crate) fn list_concurrent_change_sets(
        &self,
        ctx: &Context,
        store: &str,
        rows: &[&ChangeSetRow],
    ) -> Result<(Vec<ChangeSetRow>, Vec<ChangeClaim>)> {
        let from = rows.iter().map(|row| row.span().0).min().unwrap_or(LogCursor(0));
        let to = rows.iter().filter_map(|row| row.span().1).max().unwrap_or(from);
        let mut all = self.store.read(ctx, |r| r.change_sets().between(store, from, to))?;
        all.extend(self.list_overlapping_elsewhere(ctx, store, (from, to))?);
        // A set that is about to be closed is stored as open; `rows` knows what it will be.
        let is_closing = |row: &ChangeSetRow| {
            rows.iter().any(|own| own.set.id == row.set.id && row.closed.is_none())
        };
        all.retain(|row| row.copied.is_none() && !is_closing(row));
        let known: BTreeSet<ChangeId> = all.iter().map(|row| row.set.id.clone()).collect();
        let copies = rows.iter().filter(|row| !known.contains(&row.set.id));
        all.extend(copies.map(|row| (*row).clone()));
        let claims = all.iter().filter_map(to_claim).collect();
        Ok((all, claims))
    }

    /// The change sets that other stores have of files in the directory of this one.
    fn list_overlapping_elsewhere(
        &self,
        ctx: &Context,
        store: &str,
        (from, to): (LogCursor, LogCursor),
    ) -> Result<Vec<ChangeSetRow>> {
        let mut found = Vec::new();
        let others = self.store.read(ctx, |r| r.change_sets().roots_between(from, to))?;
        let mut others = others.into_iter().filter(|other| other != store).peekable();
        if others.peek().is_none() {
            return Ok(found);
        }
        let Some(root) = self.snapshots.find_store_root(store)? else { return Ok(found) };
        for other in others {
            let overlap = self.snapshots.find_store_root(&other)?;
            let Some(overlap) = overlap.and_then(|path| RootOverlap::find(&root, &path)) else {
                continue;
            };
            let rows = self.store.read(ctx, |r| r.change_sets().between(&other, from, to))?;
            found.extend(rows.into_iter().map(|row| rename_paths(row, &overlap)));
        }
        Ok(found)
    }

    /// The change sets of turns, and of the sessions that were begun while they ran; each is
    /// wanted as it is.
    pub(crate) fn of_turns(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<Vec<ChangeSetUndoState>> {
        self.of_turns_closing(ctx, session, turns, &[])
    }

    /// The change sets of turns, where those in `closing` count as closed already.
    fn of_turns_closing(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
        closing: &[CloseChangeSet],
    ) -> Result<Vec<ChangeSetUndoState>> {
        let selected = self.store.read(ctx, |r| {
            let mut rows = Vec::new();
            for turn in turns {
                let own = r.change_sets().of_turn(session, &turn.id)?;
                rows.extend(own.into_iter().map(|row| (turn.id.clone(), row)));
            }
            for child in list_descendants(r, session)? {
                for row in r.change_sets().list(&child)? {
                    let around = turns.iter().find(|turn| is_within_turn(turn, &row));
                    rows.extend(around.map(|turn| (turn.id.clone(), row)));
                }
            }
            rows.iter_mut().for_each(|(_, row)| close_row(row, closing));
            rows.retain(|(_, row)| row.closed.is_some());
            rows.sort_by_key(|(_, row)| row.closed);
            let selected = |(turn, row): (TurnId, ChangeSetRow)| {
                let taken = r.change_sets().undone_extent(&row.set.id)?;
                Ok(ChangeSetUndoState { wanted: taken.clone(), undone: taken, turn, row })
            };
            rows.into_iter().map(selected).collect::<turnstone_store::Result<Vec<_>>>()
        })?;
        Ok(selected)
    }
}

/// What the trace of a call tells, if the call lies between the compared states.
fn find_trace(
    selected: &ChangeSetUndoState,
    taken: impl Fn(&ChangeSetUndoState, &RelPath) -> (bool, bool),
) -> Option<TurnTrace> {
    let set = &selected.row.set;
    let report = set.trace.as_ref()?;
    let own = set.changes.iter().map(|change| &change.path);
    let mut paths = own.chain(&report.others.paths);
    let is_compared = paths.any(|path| {
        let (before, after) = taken(selected, path);
        before != after
    });
    is_compared.then(|| TurnTrace { turn: selected.turn.clone(), report: report.clone() })
}

/// A change set of another root, with the paths that both share, as this one names them.
fn rename_paths(mut row: ChangeSetRow, overlap: &RootOverlap) -> ChangeSetRow {
    row.set.changes = std::mem::take(&mut row.set.changes)
        .into_iter()
        .filter_map(|change| Some(FileChange { path: overlap.translate(&change.path)?, ..change }))
        .collect();
    if let Some(trace) = &mut row.set.trace {
        trace.shared = trace.shared.iter().filter_map(|path| overlap.translate(path)).collect();
    }
    row
}

/// Makes an open row what it will be once it is closed.
fn close_row(row: &mut ChangeSetRow, closing: &[CloseChangeSet]) {
    let Some(close) = closing.iter().find(|it| it.id == row.set.id && row.closed.is_none()) else {
        return;
    };
    row.set.evidence = close.evidence;
    row.set.changes.clone_from(&close.changes);
    row.set.trace.clone_from(&close.trace);
    row.after.clone_from(&close.after);
    row.closed = Some(LogCursor(i64::MAX));
}
