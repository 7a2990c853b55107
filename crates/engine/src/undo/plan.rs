//! Planning: per path one three-way question for each link of its history (R4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnstone_core::change::{Direction, Evidence, FileImage, Root, links};
use turnstone_core::id::SessionId;
use turnstone_core::operation::{Extent, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_snapshot::{OperationId as OrderId, Wish, WishLink, git_point};
use turnstone_store::Context;

use super::gather::{Gathered, Held};
use super::seen::{Seen, history};
use super::words::{GitNote, Part, RootPlan, UndoOptions, UndoPlan, Which};
use crate::engine::Engine;
use crate::error::Result;
use crate::image::read;

/// The history of the paths of one root, as far as it is to be walked.
#[derive(Default)]
struct Walk {
    paths: BTreeMap<RelPath, Vec<Seen>>,
    windows: BTreeSet<RelPath>,
}

impl Engine {
    /// Plans to take turns back; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToUndo`], or a fact could not be obtained: then there is no plan.
    pub fn plan_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        let mut gathered = self.gather_undo(ctx, session, which, options.scope)?;
        let also = self.take_along(ctx, session, &mut gathered, options)?;
        let plan = self.plan(ctx, session, Direction::Back, gathered, options)?;
        Ok(UndoPlan { also, ..plan })
    }

    /// Plans to bring back what was taken back; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToRedo`], or a fact could not be obtained.
    pub fn plan_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recover_session(ctx, session)?;
        let mut gathered = self.gather_redo(ctx, session, which, options.scope)?;
        let also = self.bring_along(ctx, session, &mut gathered, options)?;
        let plan = self.plan(ctx, session, Direction::Forth, gathered, options)?;
        Ok(UndoPlan { also, ..plan })
    }

    fn plan(
        &self,
        ctx: &Context,
        session: &SessionId,
        direction: Direction,
        gathered: Gathered,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        let (kind, contended) = match direction {
            Direction::Back => (OperationKind::Undo, self.contended(ctx, &gathered.changes)?),
            // What was taken back was told apart then.
            Direction::Forth => (OperationKind::Redo, Vec::new()),
        };
        let mut plan = UndoPlan {
            operation: self.mint.operation(ctx.now)?,
            kind,
            session: session.clone(),
            turns: gathered.turns,
            also: Vec::new(),
            changes: gathered.changes.iter().map(part).collect(),
            roots: Vec::new(),
            contended,
            not_covered: Vec::new(),
            unnamed: Vec::new(),
            git: Vec::new(),
            head: gathered.head,
        };
        let mut walks: BTreeMap<Root, Walk> = BTreeMap::new();
        for held in &gathered.changes {
            sort_out(&mut plan, &mut walks, held, options);
        }
        let shared: BTreeSet<(Root, RelPath)> =
            plan.contended.iter().map(|it| (it.root.clone(), it.path.clone())).collect();
        for (root, mut walk) in walks {
            walk.paths.retain(|path, _| !shared.contains(&(root.clone(), path.clone())));
            plan.roots.push(self.plan_root(ctx, direction, root, walk)?);
        }
        plan.git = moves(&gathered.changes);
        Ok(plan)
    }

    fn plan_root(
        &self,
        ctx: &Context,
        direction: Direction,
        root: Root,
        walk: Walk,
    ) -> Result<RootPlan> {
        let wish = |(path, seen): (RelPath, Vec<Seen>)| Wish {
            path,
            links: links(&history(seen), direction)
                .iter()
                .map(|link| WishLink { base: Some(read(&link.base)), target: read(&link.target) })
                .collect(),
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
) {
    let set = &held.row.set;
    for change in set.changes.iter().filter(|change| options.chooses(&change.path)) {
        let path = change.path.clone();
        let is_taken = held.taken.has(&path);
        if is_taken != (plan.kind == OperationKind::Redo) {
            continue;
        }
        let reason = [&change.before, &change.after].into_iter().find_map(|image| match image {
            FileImage::Uncovered { reason } => Some(reason.clone()),
            FileImage::Present { .. } | FileImage::Absent => None,
        });
        if let Some(reason) = reason {
            plan.not_covered.push((set.root.clone(), path, reason));
            continue;
        }
        if options.named_only && set.evidence != Evidence::Named {
            plan.unnamed.push((set.root.clone(), path));
            continue;
        }
        let walk = walks.entry(set.root.clone()).or_default();
        if set.evidence != Evidence::Named {
            walk.windows.insert(path.clone());
        }
        walk.paths.entry(path).or_default().push(Seen::new(&held.row, change));
    }
}

fn part(held: &Held) -> Part {
    let set = &held.row.set;
    let paths: Vec<RelPath> = set.changes.iter().map(|change| change.path.clone()).collect();
    let taken = match &held.taken {
        Extent::Nothing => Vec::new(),
        Extent::All => paths.clone(),
        Extent::Paths(taken) => taken.clone(),
    };
    Part { change: set.id.clone(), store: set.root.store.clone(), paths, taken }
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
    let moved = |note: &GitNote| {
        (&note.before.head, &note.before.branch) != (&note.now.head, &note.now.branch)
    };
    notes.into_values().filter(moved).collect()
}
