//! Differences: what a turn, an answer, a session changed, or what lies between two points. Only
//! what its calls changed: nothing a person or another session did is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Number;
use turnstone_core::change::{ChangeRoot, Evidence, find_own_paths};
use turnstone_core::id::{ChangeId, MessageId, SessionId, TurnId};
use turnstone_core::model::{ChangeSummary, ExtraFields, SessionFileDiff};
use turnstone_core::operation::{SessionHead, UndoExtent, UndoneChangeSet};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{DiffOptions, DiffStatus, PatchBody, PathChange, PathDiff as Shown};
use turnstone_store::{ChangeSetRow, Context, TurnRow};

use crate::captures::image_conversion::{reason_code, to_path_image};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::history::diff_event_size::{can_fit_event, trim_to_event};
use crate::history::historical_state::HistoricalState;
use crate::history::jump::SessionPoint;
use crate::history::timeline::Timeline;
use crate::history::undo::{ObservedChange, PathHistory, SelectedChangeSet};

/// Larger patches are left out, and all after this much together.
const MAX_PATCH_BYTES: usize = 1 << 20;
const MAX_TOTAL_PATCH_BYTES: usize = 16 << 20;
/// A patch shows the whole file, as OpenCode's do.
const WHOLE_FILE_CONTEXT: usize = 1 << 30;

/// What changed, file by file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionDiff {
    /// The files; one outside of the session's root by its whole path.
    pub files: Vec<SessionFileDiff>,
    /// Paths of which nothing can be said: where, which, why.
    pub not_covered: Vec<(ChangeRoot, RelPath, String)>,
}

impl SessionDiff {
    /// The figures people see.
    #[must_use]
    pub fn summary(&self) -> ChangeSummary {
        let sum = |of: fn(&SessionFileDiff) -> &Number| {
            Number::from(self.files.iter().filter_map(|file| of(file).as_u64()).sum::<u64>())
        };
        ChangeSummary {
            additions: sum(|file| &file.additions),
            deletions: sum(|file| &file.deletions),
            files: Number::from(self.files.len()),
            diffs: None,
            extra: ExtraFields::default(),
        }
    }
}

/// What is said of the changes of a session.
pub(crate) enum ChangeSummaryUpdate {
    /// It has changed nothing: what was said stays.
    Unchanged,
    /// These are the figures.
    Counts(ChangeSummary),
    /// The captures cannot be read: nothing can be said.
    Unknown,
}

impl ChangeSummaryUpdate {
    /// Writes it into the session's row, if it is something else; clients hear of that.
    pub(crate) fn write(
        &self,
        tx: &turnstone_store::Tx<'_>,
        session: &SessionId,
    ) -> turnstone_store::Result<()> {
        let stated = match self {
            Self::Unchanged => return Ok(()),
            Self::Counts(summary) => Some(summary.clone()),
            Self::Unknown => None,
        };
        let now = Number::from(tx.now().0);
        tx.sessions().update(session, |session| {
            if session.summary != stated {
                (session.summary, session.time.updated) = (stated, now);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// The way of every path, root by root.
type PathHistories = BTreeMap<ChangeRoot, BTreeMap<RelPath, PathHistory>>;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffTarget {
    /// What the session has changed and nobody has taken back.
    Session,
    /// What a turn changed, taken back or not.
    Turn(TurnId),
    /// What the turn of a prompt changed, or the calls of an answer.
    Message(MessageId),
    /// What changes on the way from one point to another; none: the beginning, and the present.
    Points(Option<SessionPoint>, Option<SessionPoint>),
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffFormat {
    /// Patches of whole files, as the JavaScript library `diff` prints them.
    #[default]
    JsDiff,
    /// Patches that `git apply` takes, with so many lines around each change.
    Git(usize),
    /// Figures only.
    CountsOnly,
}

impl DiffFormat {
    fn options(self) -> DiffOptions {
        let usual = DiffOptions::default();
        match self {
            Self::JsDiff => DiffOptions {
                context: WHOLE_FILE_CONTEXT,
                max_patch_bytes: MAX_PATCH_BYTES,
                max_total_bytes: MAX_TOTAL_PATCH_BYTES,
                ..usual
            },
            Self::Git(context) => DiffOptions { context, ..usual },
            Self::CountsOnly => DiffOptions { context: 0, ..usual },
        }
    }
}

impl Engine {
    /// Compares; only what the calls of the session changed is in it, nothing a person did.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoTurn`], [`EngineError::NoPoint`] or
    /// [`turnstone_store::StoreError::NoMessage`]; or something could not be read: then there is no
    /// difference, not a short one.
    pub fn diff(
        &self,
        ctx: &Context,
        session: &SessionId,
        what: &DiffTarget,
        form: DiffFormat,
    ) -> Result<SessionDiff> {
        self.ensure_recovered(ctx, session)?;
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let whole = |_: &SelectedChangeSet, _: &RelPath| (true, false);
        match what {
            DiffTarget::Session => {
                let changes = self.session_change_sets(ctx, session, &line)?;
                let taken = |held: &SelectedChangeSet, path: &RelPath| {
                    (true, held.undone.contains_path(path))
                };
                self.diff_change_sets(ctx, session, form, &changes, taken)
            }
            DiffTarget::Turn(turn) => {
                let missing =
                    || EngineError::NoTurn { session: session.clone(), turn: turn.clone() };
                let found = line.turns.iter().find(|it| it.id == *turn).ok_or_else(missing)?;
                let changes = self.change_sets_of_turns(ctx, session, &[found])?;
                self.diff_change_sets(ctx, session, form, &changes, whole)
            }
            DiffTarget::Message(message) => {
                self.store.read(ctx, |r| r.messages().get(session, message))?;
                let turn = line.turns.iter().find(|turn| turn.message == *message);
                let changes = match turn {
                    Some(turn) => self.change_sets_of_turns(ctx, session, &[turn])?,
                    None => self.answer_change_sets(ctx, session, &line, message)?,
                };
                self.diff_change_sets(ctx, session, form, &changes, whole)
            }
            DiffTarget::Points(from, to) => {
                self.diff_points(ctx, session, form, from.as_ref(), to.as_ref())
            }
        }
    }

    /// What the turns behind a head changed, as clients are shown it after a revert: whether a file
    /// could follow or not. Nothing if it cannot be told, or is too much for one event.
    pub(crate) fn diff_after_head(
        &self,
        ctx: &Context,
        session: &SessionId,
        head: &SessionHead,
    ) -> Result<Option<Vec<SessionFileDiff>>> {
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let there = line.position_of(Some(head));
        let mut changes = self.session_change_sets(ctx, session, &line)?;
        changes.retain(|held| {
            line.change_set_position(session, &held.turn, &held.row).is_some_and(|at| at >= there)
        });
        if !can_fit_event(changes.iter().map(|held| held.row.set.changes.len()).sum()) {
            return Ok(None);
        }
        let whole = |_: &SelectedChangeSet, _: &RelPath| (true, false);
        let found = self.diff_change_sets(ctx, session, DiffFormat::JsDiff, &changes, whole);
        Ok(found.ok().and_then(|found| trim_to_event(found.files)))
    }

    fn session_change_sets(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
    ) -> Result<Vec<SelectedChangeSet>> {
        let turns: Vec<&TurnRow> = line.turns.iter().collect();
        self.change_sets_of_turns(ctx, session, &turns)
    }

    /// The change sets of the calls of one answer.
    fn answer_change_sets(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        message: &MessageId,
    ) -> Result<Vec<SelectedChangeSet>> {
        let mut changes = self.session_change_sets(ctx, session, line)?;
        changes.retain(|held| {
            let part = held.row.set.part.as_ref();
            part.is_some_and(|part| line.message_of(part) == Some(message))
        });
        Ok(changes)
    }

    fn diff_points(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: DiffFormat,
        from: Option<&SessionPoint>,
        to: Option<&SessionPoint>,
    ) -> Result<SessionDiff> {
        let (line, operations) = self.read_timeline(ctx, session)?;
        let find = |point: Option<&SessionPoint>, other: LogCursor| match point {
            Some(point) => Ok(self.resolve_point(ctx, session, &line, &operations, point)?.cursor),
            None => Ok::<_, EngineError>(other),
        };
        let (from, to) = (find(from, LogCursor(0))?, find(to, LogCursor(i64::MAX))?);
        let changes = self.session_change_sets(ctx, session, &line)?;
        let (one, other) =
            (HistoricalState::at(&operations, from), HistoricalState::at(&operations, to));
        let taken = |past: &HistoricalState, at, row: &ChangeSetRow| match row.opened > at {
            true => UndoExtent::All,
            false => past.undone_extent(&row.set.id),
        };
        let stood = |held: &SelectedChangeSet, path: &RelPath| {
            let before = taken(&one, from, &held.row).contains_path(path);
            (before, taken(&other, to, &held.row).contains_path(path))
        };
        self.diff_change_sets(ctx, session, form, &changes, stood)
    }

    /// What is to be said of the changes of a session when a turn of it ends.
    pub(crate) fn summarize_at_turn_end(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<ChangeSummaryUpdate> {
        let touched = self.store.read(ctx, |r| {
            Ok(!r.change_sets().of_turn(session, turn)?.is_empty()
                || !r.sessions().children(session)?.is_empty())
        })?;
        match touched {
            true => self.summarize_changes(ctx, session, &[]),
            false => Ok(ChangeSummaryUpdate::Unchanged),
        }
    }

    /// What is to be said of the changes of a session once `taken` is taken back as well.
    ///
    /// A session that changed nothing keeps what is said of it; what cannot be told is not guessed.
    pub(crate) fn summarize_changes(
        &self,
        ctx: &Context,
        session: &SessionId,
        taken: &[UndoneChangeSet],
    ) -> Result<ChangeSummaryUpdate> {
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let mut changes = self.session_change_sets(ctx, session, &line)?;
        if changes.is_empty() {
            return Ok(ChangeSummaryUpdate::Unchanged);
        }
        for held in &mut changes {
            if let Some(then) = taken.iter().find(|it| it.change == held.row.set.id) {
                held.undone = then.extent.clone();
            }
        }
        let stands =
            |held: &SelectedChangeSet, path: &RelPath| (true, held.undone.contains_path(path));
        let told = self.diff_change_sets(ctx, session, DiffFormat::CountsOnly, &changes, stands);
        Ok(told.map_or(ChangeSummaryUpdate::Unknown, |found| {
            ChangeSummaryUpdate::Counts(found.summary())
        }))
    }

    /// Writes down what is to be said of the changes of a session, if that is something else.
    pub(crate) fn update_change_summary(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let (stated, name) = (self.summarize_changes(ctx, session, &[])?, session.clone());
        let restate = move |tx: &turnstone_store::Tx<'_>| stated.write(tx, &name);
        Ok(self.store.write(ctx, restate).wait()?)
    }

    /// Shows the changes whose state differs: `taken` says whether a path of a change set was taken
    /// back at the one end and at the other.
    fn diff_change_sets(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: DiffFormat,
        changes: &[SelectedChangeSet],
        taken: impl Fn(&SelectedChangeSet, &RelPath) -> (bool, bool),
    ) -> Result<SessionDiff> {
        let own = self.find_own_paths(ctx, changes)?;
        let (mut found, mut courses) = (SessionDiff::default(), PathHistories::new());
        for held in changes {
            let set = &held.row.set;
            for change in &set.changes {
                let (before, after) = taken(held, &change.path);
                let is_own = own.get(&set.id).is_none_or(|paths| paths.contains(&change.path));
                if before == after || !is_own {
                    continue;
                }
                if !change.is_covered() {
                    let why = "not covered".to_owned();
                    found.not_covered.push((set.root.clone(), change.path.clone(), why));
                    continue;
                }
                let paths = courses.entry(set.root.clone()).or_default();
                let course = paths.entry(change.path.clone()).or_default();
                let way = if after { &mut course.back } else { &mut course.forth };
                way.push(ObservedChange::new(&held.row, change));
            }
        }
        let home = self.store.read(ctx, |r| r.sessions().get(session))?.directory;
        for (root, paths) in courses {
            self.append_file_diffs(ctx, (&root, &home), form, &paths, &mut found)?;
        }
        Ok(found)
    }

    /// What each window may claim as its own; named writes are not in it: they need no proof.
    fn find_own_paths(
        &self,
        ctx: &Context,
        changes: &[SelectedChangeSet],
    ) -> Result<BTreeMap<ChangeId, BTreeSet<RelPath>>> {
        let mut by_store: BTreeMap<&str, Vec<&ChangeSetRow>> = BTreeMap::new();
        let windows = changes.iter().filter(|held| held.row.set.evidence != Evidence::Named);
        for held in windows {
            by_store.entry(&held.row.set.root.store).or_default().push(&held.row);
        }
        let mut own = BTreeMap::new();
        for (store, rows) in by_store {
            let (_, claims) = self.list_claims(ctx, store, &rows)?;
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
        paths: &BTreeMap<RelPath, PathHistory>,
        found: &mut SessionDiff,
    ) -> Result<()> {
        let vault = self.handle_of_root(root, ctx.now)?;
        let mut changes = Vec::new();
        for (path, course) in paths {
            changes.extend(course.three_way_steps().iter().map(|link| PathChange {
                path: path.clone(),
                before: to_path_image(&link.base),
                after: to_path_image(&link.target),
            }));
        }
        let diff = vault.diff_changes(&changes, &form.options())?;
        let missing = diff.not_covered.into_iter();
        found
            .not_covered
            .extend(missing.map(|(path, reason)| (root.clone(), path, reason_code(reason))));
        // The root holds the session's directory: its paths are short.
        let is_home = Path::new(home).starts_with(&root.path);
        let name = |path: &RelPath| match is_home {
            true => path.to_string(),
            false => Path::new(&root.path).join(path.to_string()).to_string_lossy().into_owned(),
        };
        let mut files: BTreeMap<RelPath, Vec<Shown>> = BTreeMap::new();
        for file in diff.files {
            files.entry(file.path.clone()).or_default().push(file);
        }
        found
            .files
            .extend(files.iter().map(|(path, steps)| join_file_steps(&name(path), form, steps)));
        Ok(())
    }
}

/// One file; several steps are what somebody else's change lies between.
fn join_file_steps(name: &str, form: DiffFormat, steps: &[Shown]) -> SessionFileDiff {
    let sum = |of: fn(&Shown) -> usize| Number::from(steps.iter().map(of).sum::<usize>());
    let (first, last) = (steps.first().map(|it| it.status), steps.last().map(|it| it.status));
    let status = match (first, last) {
        (Some(DiffStatus::Added), Some(DiffStatus::Deleted)) => "modified",
        (Some(DiffStatus::Added), _) => "added",
        (_, Some(DiffStatus::Deleted)) => "deleted",
        _ => "modified",
    };
    SessionFileDiff {
        file: Some(name.to_owned()),
        patch: match form {
            DiffFormat::JsDiff => format_jsdiff_patch(name, steps),
            DiffFormat::Git(_) => format_git_patch(steps),
            DiffFormat::CountsOnly => None,
        },
        additions: sum(|it| it.additions),
        deletions: sum(|it| it.deletions),
        status: Some(status.to_owned()),
        extra: ExtraFields::default(),
    }
}

/// A patch as git prints it, step by step; empty and nothing as below.
fn format_git_patch(steps: &[Shown]) -> Option<String> {
    let mut text = String::new();
    for step in steps {
        match &step.patch {
            PatchBody::Text(git) => text.push_str(&String::from_utf8_lossy(git)),
            PatchBody::Binary => return Some(String::new()),
            PatchBody::TooLarge => return None,
        }
    }
    Some(text)
}

/// A patch as the JavaScript library `diff` prints it; empty for what is no text, nothing for what
/// is too large.
fn format_jsdiff_patch(name: &str, steps: &[Shown]) -> Option<String> {
    let line = "=".repeat(67);
    let mut text = format!("Index: {name}\n{line}\n--- {name}\t\n+++ {name}\t\n");
    for step in steps {
        let git = match &step.patch {
            PatchBody::Text(git) => String::from_utf8_lossy(git),
            PatchBody::Binary => return Some(String::new()),
            PatchBody::TooLarge => return None,
        };
        let body = git.lines().skip_while(|line| !line.starts_with("@@ "));
        for line in body {
            match line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" @@")) {
                Some((counts, _)) => text.push_str(&format_hunk_header(counts)),
                None => text.push_str(line),
            }
            text.push('\n');
        }
    }
    Some(text)
}

/// The head of a hunk, both counts written out.
fn format_hunk_header(counts: &str) -> String {
    let full = |side: &str| match side.contains(',') {
        true => side.to_owned(),
        false => format!("{side},1"),
    };
    let (old, new) = counts.split_once(" +").unwrap_or((counts, "0,0"));
    format!("@@ -{} +{} @@", full(old), full(new))
}
