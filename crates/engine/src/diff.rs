//! Differences: what a turn, an answer, a session changed, or what lies between two points. Only
//! what its calls changed: nothing a person or another session did is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Number;
use turnstone_core::change::{Evidence, Root, own_paths};
use turnstone_core::id::{ChangeId, MessageId, SessionId, TurnId};
use turnstone_core::model::{Extra, FileDiff, Summary};
use turnstone_core::operation::{Extent, Head, Taken};
use turnstone_core::path::RelPath;
use turnstone_core::time::Cursor;
use turnstone_snapshot::{DiffOptions, FileDiff as Shown, Patch, PathChange, Status};
use turnstone_store::{ChangeRow, Context, TurnRow};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::image::{read, word};
use crate::jump::Point;
use crate::line::Line;
use crate::past::Past;
use crate::told::{is_tellable, told};
use crate::undo::{Course, Held, Seen};

/// Larger patches are left out, and all after this much together.
const PATCH: usize = 1 << 20;
const PATCHES: usize = 16 << 20;
/// A patch shows the whole file, as OpenCode's do.
const WHOLE: usize = 1 << 30;

/// What changed, file by file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// The files; one outside of the session's root by its whole path.
    pub files: Vec<FileDiff>,
    /// Paths of which nothing can be said: where, which, why.
    pub not_covered: Vec<(Root, RelPath, String)>,
}

impl Differences {
    /// The figures people see.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let sum = |of: fn(&FileDiff) -> &Number| {
            Number::from(self.files.iter().filter_map(|file| of(file).as_u64()).sum::<u64>())
        };
        Summary {
            additions: sum(|file| &file.additions),
            deletions: sum(|file| &file.deletions),
            files: Number::from(self.files.len()),
            diffs: None,
            extra: Extra::default(),
        }
    }
}

/// What is said of the changes of a session.
pub(crate) enum Stated {
    /// It has changed nothing: what was said stays.
    AsItWas,
    /// These are the figures.
    Figures(Summary),
    /// The captures cannot be read: nothing can be said.
    Unknown,
}

impl Stated {
    /// Writes it into the session's row, if it is something else; clients hear of that.
    pub(crate) fn put(
        &self,
        tx: &turnstone_store::Tx<'_>,
        session: &SessionId,
    ) -> turnstone_store::Result<()> {
        let stated = match self {
            Self::AsItWas => return Ok(()),
            Self::Figures(summary) => Some(summary.clone()),
            Self::Unknown => None,
        };
        let now = Number::from(tx.now().0);
        tx.update_session(session, |session| {
            if session.summary != stated {
                (session.summary, session.time.updated) = (stated, now);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// The way of every path, root by root.
type Courses = BTreeMap<Root, BTreeMap<RelPath, Course>>;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// What the session has changed and nobody has taken back.
    Session,
    /// What a turn changed, taken back or not.
    Turn(TurnId),
    /// What the turn of a prompt changed, or the calls of an answer.
    Message(MessageId),
    /// What changes on the way from one point to another; none: the beginning, and the present.
    Points(Option<Point>, Option<Point>),
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Patches of whole files, as the JavaScript library `diff` prints them.
    #[default]
    Clients,
    /// Patches that `git apply` takes, with so many lines around each change.
    Git(usize),
    /// Figures only.
    Figures,
}

impl Form {
    fn options(self) -> DiffOptions {
        let usual = DiffOptions::default();
        match self {
            Self::Clients => DiffOptions {
                context: WHOLE,
                max_patch_bytes: PATCH,
                max_total_bytes: PATCHES,
                ..usual
            },
            Self::Git(context) => DiffOptions { context, ..usual },
            Self::Figures => DiffOptions { context: 0, ..usual },
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
        what: &Compared,
        form: Form,
    ) -> Result<Differences> {
        self.meet(ctx, session)?;
        let line = self.store.read(ctx, |r| Line::read(r, session))?;
        let whole = |_: &Held, _: &RelPath| (true, false);
        match what {
            Compared::Session => {
                let changes = self.all_changes(ctx, session, &line)?;
                let taken = |held: &Held, path: &RelPath| (true, held.taken.has(path));
                self.differences(ctx, session, form, &changes, taken)
            }
            Compared::Turn(turn) => {
                let missing =
                    || EngineError::NoTurn { session: session.clone(), turn: turn.clone() };
                let found = line.turns.iter().find(|it| it.id == *turn).ok_or_else(missing)?;
                let changes = self.changes_of(ctx, session, &[found])?;
                self.differences(ctx, session, form, &changes, whole)
            }
            Compared::Message(message) => {
                self.store.read(ctx, |r| r.get_message(session, message))?;
                let turn = line.turns.iter().find(|turn| turn.message == *message);
                let changes = match turn {
                    Some(turn) => self.changes_of(ctx, session, &[turn])?,
                    None => self.changes_in_answer(ctx, session, &line, message)?,
                };
                self.differences(ctx, session, form, &changes, whole)
            }
            Compared::Points(from, to) => {
                self.diff_between(ctx, session, form, from.as_ref(), to.as_ref())
            }
        }
    }

    /// What the turns behind a head changed, as clients are shown it after a revert: whether a file
    /// could follow or not. Nothing if it cannot be told, or is too much for one event.
    pub(crate) fn diff_behind(
        &self,
        ctx: &Context,
        session: &SessionId,
        head: &Head,
    ) -> Result<Option<Vec<FileDiff>>> {
        let line = self.store.read(ctx, |r| Line::read(r, session))?;
        let there = line.spot(Some(head));
        let mut changes = self.all_changes(ctx, session, &line)?;
        changes.retain(|held| {
            line.change(session, &held.turn, &held.row).is_some_and(|at| at >= there)
        });
        if !is_tellable(changes.iter().map(|held| held.row.set.changes.len()).sum()) {
            return Ok(None);
        }
        let whole = |_: &Held, _: &RelPath| (true, false);
        let found = self.differences(ctx, session, Form::Clients, &changes, whole);
        Ok(found.ok().and_then(|found| told(found.files)))
    }

    fn all_changes(&self, ctx: &Context, session: &SessionId, line: &Line) -> Result<Vec<Held>> {
        let turns: Vec<&TurnRow> = line.turns.iter().collect();
        self.changes_of(ctx, session, &turns)
    }

    /// The change sets of the calls of one answer.
    fn changes_in_answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Line,
        message: &MessageId,
    ) -> Result<Vec<Held>> {
        let mut changes = self.all_changes(ctx, session, line)?;
        changes.retain(|held| {
            let part = held.row.set.part.as_ref();
            part.is_some_and(|part| line.message_of(part) == Some(message))
        });
        Ok(changes)
    }

    fn diff_between(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: Form,
        from: Option<&Point>,
        to: Option<&Point>,
    ) -> Result<Differences> {
        let (line, operations) = self.line_of(ctx, session)?;
        let find = |point: Option<&Point>, other: Cursor| match point {
            Some(point) => Ok(self.resolve(ctx, session, &line, &operations, point)?.cursor),
            None => Ok::<_, EngineError>(other),
        };
        let (from, to) = (find(from, Cursor(0))?, find(to, Cursor(i64::MAX))?);
        let changes = self.all_changes(ctx, session, &line)?;
        let (one, other) = (Past::at(&operations, from), Past::at(&operations, to));
        let taken = |past: &Past, at, row: &ChangeRow| match row.opened > at {
            true => Extent::All,
            false => past.taken(&row.set.id),
        };
        let stood = |held: &Held, path: &RelPath| {
            let before = taken(&one, from, &held.row).has(path);
            (before, taken(&other, to, &held.row).has(path))
        };
        self.differences(ctx, session, form, &changes, stood)
    }

    /// What is to be said of the changes of a session when a turn of it ends.
    pub(crate) fn state_at_end(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Stated> {
        let touched = self.store.read(ctx, |r| {
            Ok(!r.turn_changes(session, turn)?.is_empty() || !r.children(session)?.is_empty())
        })?;
        match touched {
            true => self.state_changes(ctx, session, &[]),
            false => Ok(Stated::AsItWas),
        }
    }

    /// What is to be said of the changes of a session once `taken` is taken back as well.
    ///
    /// A session that changed nothing keeps what is said of it; what cannot be told is not guessed.
    pub(crate) fn state_changes(
        &self,
        ctx: &Context,
        session: &SessionId,
        taken: &[Taken],
    ) -> Result<Stated> {
        let line = self.store.read(ctx, |r| Line::read(r, session))?;
        let mut changes = self.all_changes(ctx, session, &line)?;
        if changes.is_empty() {
            return Ok(Stated::AsItWas);
        }
        for held in &mut changes {
            if let Some(then) = taken.iter().find(|it| it.change == held.row.set.id) {
                held.taken = then.extent.clone();
            }
        }
        let stands = |held: &Held, path: &RelPath| (true, held.taken.has(path));
        let told = self.differences(ctx, session, Form::Figures, &changes, stands);
        Ok(told.map_or(Stated::Unknown, |found| Stated::Figures(found.summary())))
    }

    /// Writes down what is to be said of the changes of a session, if that is something else.
    pub(crate) fn restate_changes(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let (stated, name) = (self.state_changes(ctx, session, &[])?, session.clone());
        let restate = move |tx: &turnstone_store::Tx<'_>| stated.put(tx, &name);
        Ok(self.store.write(ctx, restate).wait()?)
    }

    /// Shows the changes whose state differs: `taken` says whether a path of a change set was taken
    /// back at the one end and at the other.
    fn differences(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: Form,
        changes: &[Held],
        taken: impl Fn(&Held, &RelPath) -> (bool, bool),
    ) -> Result<Differences> {
        let own = self.own(ctx, changes)?;
        let (mut found, mut courses) = (Differences::default(), Courses::new());
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
                way.push(Seen::new(&held.row, change));
            }
        }
        let home = self.store.read(ctx, |r| r.get_session(session))?.directory;
        for (root, paths) in courses {
            self.show(ctx, (&root, &home), form, &paths, &mut found)?;
        }
        Ok(found)
    }

    /// What each window may claim as its own; named writes are not in it: they need no proof.
    fn own(
        &self,
        ctx: &Context,
        changes: &[Held],
    ) -> Result<BTreeMap<ChangeId, BTreeSet<RelPath>>> {
        let mut by_store: BTreeMap<&str, Vec<&ChangeRow>> = BTreeMap::new();
        let windows = changes.iter().filter(|held| held.row.set.evidence != Evidence::Named);
        for held in windows {
            by_store.entry(&held.row.set.root.store).or_default().push(&held.row);
        }
        let mut own = BTreeMap::new();
        for (store, rows) in by_store {
            let (_, claims) = self.claims(ctx, store, &rows)?;
            for row in rows {
                own.insert(row.set.id.clone(), own_paths(&row.set.id, &claims));
            }
        }
        Ok(own)
    }

    fn show(
        &self,
        ctx: &Context,
        (root, home): (&Root, &str),
        form: Form,
        paths: &BTreeMap<RelPath, Course>,
        found: &mut Differences,
    ) -> Result<()> {
        let vault = self.vault_of(root, ctx.now)?;
        let mut changes = Vec::new();
        for (path, course) in paths {
            changes.extend(course.links().iter().map(|link| PathChange {
                path: path.clone(),
                before: read(&link.base),
                after: read(&link.target),
            }));
        }
        let diff = vault.show_changes(&changes, &form.options())?;
        let missing = diff.not_covered.into_iter();
        found.not_covered.extend(missing.map(|(path, reason)| (root.clone(), path, word(reason))));
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
        found.files.extend(files.iter().map(|(path, steps)| joined(&name(path), form, steps)));
        Ok(())
    }
}

/// One file; several steps are what somebody else's change lies between.
fn joined(name: &str, form: Form, steps: &[Shown]) -> FileDiff {
    let sum = |of: fn(&Shown) -> usize| Number::from(steps.iter().map(of).sum::<usize>());
    let (first, last) = (steps.first().map(|it| it.status), steps.last().map(|it| it.status));
    let status = match (first, last) {
        (Some(Status::Added), Some(Status::Deleted)) => "modified",
        (Some(Status::Added), _) => "added",
        (_, Some(Status::Deleted)) => "deleted",
        _ => "modified",
    };
    FileDiff {
        file: Some(name.to_owned()),
        patch: match form {
            Form::Clients => jsdiff(name, steps),
            Form::Git(_) => git(steps),
            Form::Figures => None,
        },
        additions: sum(|it| it.additions),
        deletions: sum(|it| it.deletions),
        status: Some(status.to_owned()),
        extra: Extra::default(),
    }
}

/// A patch as git prints it, step by step; empty and nothing as below.
fn git(steps: &[Shown]) -> Option<String> {
    let mut text = String::new();
    for step in steps {
        match &step.patch {
            Patch::Text(git) => text.push_str(&String::from_utf8_lossy(git)),
            Patch::Binary => return Some(String::new()),
            Patch::TooLarge => return None,
        }
    }
    Some(text)
}

/// A patch as the JavaScript library `diff` prints it; empty for what is no text, nothing for what
/// is too large.
fn jsdiff(name: &str, steps: &[Shown]) -> Option<String> {
    let line = "=".repeat(67);
    let mut text = format!("Index: {name}\n{line}\n--- {name}\t\n+++ {name}\t\n");
    for step in steps {
        let git = match &step.patch {
            Patch::Text(git) => String::from_utf8_lossy(git),
            Patch::Binary => return Some(String::new()),
            Patch::TooLarge => return None,
        };
        let body = git.lines().skip_while(|line| !line.starts_with("@@ "));
        for line in body {
            match line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" @@")) {
                Some((counts, _)) => text.push_str(&hunk(counts)),
                None => text.push_str(line),
            }
            text.push('\n');
        }
    }
    Some(text)
}

/// The head of a hunk, both counts written out.
fn hunk(counts: &str) -> String {
    let full = |side: &str| match side.contains(',') {
        true => side.to_owned(),
        false => format!("{side},1"),
    };
    let (old, new) = counts.split_once(" +").unwrap_or((counts, "0,0"));
    format!("@@ -{} +{} @@", full(old), full(new))
}
