//! Planning: per path one three-way question for each link of its history (R4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnstone_core::change::{Direction, Evidence, FileChange, FileImage, Link, Root, links};
use turnstone_core::id::SessionId;
use turnstone_core::operation::Extent;
use turnstone_core::path::RelPath;
use turnstone_core::time::Cursor;
use turnstone_snapshot::{OperationId as OrderId, Wish, WishLink, git_point};
use turnstone_store::{ChangeRow, Context};

use super::gather::{Gathered, Held};
use super::retrace::Retraced;
use super::words::{GitNote, Part, RootPlan, UndoOptions, UndoPlan, Which};
use crate::engine::Engine;
use crate::error::Result;
use crate::image::read;

/// The history of the paths of one root, as far as it is to be walked.
#[derive(Default)]
struct Walk {
    paths: BTreeMap<RelPath, Course>,
    windows: BTreeSet<RelPath>,
}

/// The changes of one path that are taken back, and those that are brought back, oldest first.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) back: Vec<Seen>,
    pub(crate) forth: Vec<Seen>,
}

/// What one change set saw of a path, and between which places in the log.
#[derive(Clone)]
pub(crate) struct Seen {
    opened: Cursor,
    closed: Option<Cursor>,
    before: FileImage,
    after: FileImage,
}

impl Seen {
    pub(crate) fn new(row: &ChangeRow, change: &FileChange) -> Self {
        let (opened, closed) = row.span();
        let FileChange { before, after, .. } = change.clone();
        Self { opened, closed, before, after }
    }
}

/// The history of a path, oldest first. What was seen by several at the same time is one change:
/// from what the first found to what the last one left.
fn history(seen: &[Seen]) -> Vec<(FileImage, FileImage)> {
    let mut seen = seen.to_vec();
    seen.sort_by_key(|one| one.opened);
    let mut joined: Vec<Seen> = Vec::new();
    for one in seen {
        match joined.last_mut() {
            Some(last) if Some(one.opened) < last.closed => {
                if one.closed > last.closed {
                    (last.closed, last.after) = (one.closed, one.after);
                }
            }
            _ => joined.push(one),
        }
    }
    joined.into_iter().map(|one| (one.before, one.after)).collect()
}

impl Course {
    /// The steps from what is there to what should be.
    pub(crate) fn links(&self) -> Vec<Link> {
        let mut steps = links(&history(&self.back), Direction::Back);
        steps.extend(links(&history(&self.forth), Direction::Forth));
        steps
    }

    /// The same for a snapshot store; what was taken back comes back as it was taken, if that is
    /// known.
    fn wishes(&self, retraced: Option<&Vec<WishLink>>) -> Vec<WishLink> {
        match retraced {
            None => self.links().iter().map(wish).collect(),
            Some(forth) => undoing(&self.back).into_iter().chain(forth.iter().cloned()).collect(),
        }
    }
}

/// The steps that take back what was seen of a path.
pub(super) fn undoing(seen: &[Seen]) -> Vec<WishLink> {
    links(&history(seen), Direction::Back).iter().map(wish).collect()
}

fn wish(link: &Link) -> WishLink {
    WishLink::new(Some(read(&link.base)), read(&link.target))
}

impl Engine {
    /// Plans to take turns back; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToUndo`]; [`crate::EngineError::Expired`] if the undo of one of the
    /// turns has expired; or a fact could not be obtained: then there is no plan.
    pub fn plan_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        let gathered = self.gather_undo(ctx, session, which, options)?;
        self.plan(ctx, session, gathered, options)
    }

    /// Plans to bring back what was taken back; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToRedo`]; [`crate::EngineError::Expired`] or
    /// [`crate::EngineError::GuardExpired`] if what it needs is gone; or a fact could not be obtained.
    pub fn plan_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        let gathered = self.gather_redo(ctx, session, which, options)?;
        self.plan(ctx, session, gathered, options)
    }

    /// Makes a plan of what was gathered.
    pub(crate) fn plan(
        &self,
        ctx: &Context,
        session: &SessionId,
        gathered: Gathered,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        let Gathered { kind, turns, also, mut changes, head, aside } = gathered;
        self.refuse_expired(ctx, &changes)?;
        self.veil_forgotten(&mut changes)?;
        let mut plan = UndoPlan {
            operation: self.mint.operation(ctx.now)?,
            kind,
            session: session.clone(),
            turns,
            also,
            changes: Vec::new(),
            roots: Vec::new(),
            contended: self.contended(ctx, &changes)?,
            not_covered: aside.not_covered,
            unnamed: Vec::new(),
            git: Vec::new(),
            head,
            todos: aside.todos,
            withdrawn: aside.withdrawn,
            switch: aside.switch,
            relies: Vec::new(),
        };
        let mut walks: BTreeMap<Root, Walk> = BTreeMap::new();
        for held in &changes {
            let part = sort_out(&mut plan, &mut walks, held, options);
            plan.changes.push(part);
        }
        let retraced = self.retraced(ctx, session, &plan.changes)?;
        self.refuse_unguarded(ctx, session, &retraced.relies)?;
        plan.relies = retraced.relies.iter().cloned().collect();
        let shared: BTreeSet<(Root, RelPath)> =
            plan.contended.iter().map(|it| (it.root.clone(), it.path.clone())).collect();
        for (root, mut walk) in walks {
            walk.paths.retain(|path, _| !shared.contains(&(root.clone(), path.clone())));
            plan.roots.push(self.plan_root(ctx, root, walk, &retraced)?);
        }
        plan.git = moves(&changes);
        Ok(plan)
    }

    /// The ways back of what is to be brought back, as far as operations wrote them down.
    fn retraced(&self, ctx: &Context, session: &SessionId, parts: &[Part]) -> Result<Retraced> {
        let brings = |part: &Part| part.taken.iter().any(|path| !part.wanted.has(path));
        match parts.iter().any(brings) {
            true => {
                let operations = self.store.read(ctx, |r| r.operations(session))?;
                self.retrace(ctx, parts, &operations)
            }
            false => Ok(Retraced::default()),
        }
    }

    fn plan_root(
        &self,
        ctx: &Context,
        root: Root,
        walk: Walk,
        retraced: &Retraced,
    ) -> Result<RootPlan> {
        let wish = |(path, course): (RelPath, Course)| {
            let spot = (root.store.clone(), path);
            let links = course.wishes(retraced.links.get(&spot));
            Wish { path: spot.1, links }
        };
        let windows =
            walk.windows.into_iter().filter(|path| walk.paths.contains_key(path)).collect();
        let wishes: Vec<Wish> = walk.paths.into_iter().map(wish).collect();
        let vault = self.vault_of(&root, ctx.now)?;
        let plan = vault.plan(&wishes, ctx.now)?;
        Ok(RootPlan { root, order: OrderId::mint()?, plan, windows })
    }
}

/// Puts the paths of a change set where they belong: to be walked, not covered, or left out.
fn sort_out(
    plan: &mut UndoPlan,
    walks: &mut BTreeMap<Root, Walk>,
    held: &Held,
    options: &UndoOptions,
) -> Part {
    let set = &held.row.set;
    let mut wanted = Vec::new();
    for change in &set.changes {
        let path = change.path.clone();
        let (is_taken, mut is_wanted) = (held.taken.has(&path), held.wanted.has(&path));
        let is_meant = is_taken != is_wanted && options.chooses(&path);
        let reason = [&change.before, &change.after].into_iter().find_map(|image| match image {
            FileImage::Uncovered { reason } => Some(reason.clone()),
            FileImage::Present { .. } | FileImage::Absent => None,
        });
        match reason {
            _ if !is_meant => is_wanted = is_taken,
            Some(reason) => plan.not_covered.push((set.root.clone(), path.clone(), reason)),
            None if options.named_only && set.evidence != Evidence::Named => {
                plan.unnamed.push((set.root.clone(), path.clone()));
                is_wanted = is_taken;
            }
            None => {
                let walk = walks.entry(set.root.clone()).or_default();
                if set.evidence != Evidence::Named {
                    walk.windows.insert(path.clone());
                }
                let course = walk.paths.entry(path.clone()).or_default();
                let way = if is_wanted { &mut course.back } else { &mut course.forth };
                way.push(Seen::new(&held.row, change));
            }
        }
        wanted.extend(is_wanted.then_some(path));
    }
    let paths: Vec<RelPath> = set.changes.iter().map(|change| change.path.clone()).collect();
    let taken = paths.iter().filter(|path| held.taken.has(path)).cloned().collect();
    let wanted = match wanted.len() {
        0 => Extent::Nothing,
        all if all == paths.len() => Extent::All,
        _ => Extent::Paths(wanted),
    };
    let (change, session, store) = (set.id.clone(), set.session.clone(), set.root.store.clone());
    Part { change, session: Some(session), store, paths, taken, wanted }
}

/// Repositories that do not stand where they stood before the first of the change sets (R5).
fn moves(changes: &[Held]) -> Vec<GitNote> {
    let mut notes: BTreeMap<&Root, GitNote> = BTreeMap::new();
    for held in changes {
        let set = &held.row.set;
        let Some(git) = &set.git else { continue };
        let now = git_point(Path::new(&set.root.path)).unwrap_or_default();
        let note = GitNote { root: set.root.clone(), before: git.before.clone(), now };
        notes.entry(&set.root).or_insert(note);
    }
    // What cannot be told is said, too: nobody may take it for "has not moved".
    let moved = |note: &GitNote| !note.before.is_where(&note.now);
    notes.into_values().filter(moved).collect()
}
