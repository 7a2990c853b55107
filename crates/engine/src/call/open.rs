//! Opening: what is there before a call, captured and written down before it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::{Evidence, Root};
use turnstone_core::id::{ChangeId, PartId};
use turnstone_core::model::Session;
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Capture, Group, Vault, git_point};
use turnstone_store::{Context, OpenChange};

use crate::engine::Engine;
use crate::error::Result;
use crate::root::{Cover, Located, locate, root_of};
use crate::turn::Turn;

/// Paths in other roots, by root.
type Elsewhere = BTreeMap<PathBuf, (Arc<Vault>, BTreeSet<RelPath>)>;

/// A call that may be changing files right now.
pub struct Call {
    /// Its change set.
    pub id: ChangeId,
    /// Paths the tool named that lie outside of every root: not covered.
    pub outside: Vec<PathBuf>,
    /// What it does in other roots of the project, each a change set of its own (R39).
    pub beside: Vec<Call>,
    pub(crate) vault: Option<Arc<Vault>>,
    pub(crate) before: Option<Capture>,
    pub(crate) named: Option<BTreeSet<RelPath>>,
}

impl Call {
    /// False if nothing this call does can be taken back: its root is not captured, or it names nothing
    /// that lies in a root.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        let names_nothing = self.named.as_ref().is_some_and(BTreeSet::is_empty);
        let is_elsewhere = names_nothing && self.beside.is_empty() && !self.outside.is_empty();
        self.before.is_some() && !is_elsewhere
    }

    /// True if that is so only because there was no room, and it runs all the same (R13).
    #[must_use]
    pub fn had_no_room(&self) -> bool {
        self.before.is_none() && self.vault.is_some()
    }
}

/// The pin group of a session: what keeps its captures.
pub(crate) fn group_of(session: &turnstone_core::id::SessionId) -> Group {
    Group::new(session.as_str())
}

impl Engine {
    /// Announces the paths a tool is about to write; they are captured before this returns (R6).
    ///
    /// # Errors
    ///
    /// The capture or the ledger failed: then the tool must not write.
    pub fn open_named(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        paths: &[PathBuf],
    ) -> Result<Call> {
        let session = self.store.read(ctx, |r| r.get_session(&turn.session))?;
        let Cover::Vault(vault) = self.cover(&session, ctx.now)? else {
            return self.announce(ctx, turn, part, &session, None, Some(BTreeSet::new()), None);
        };
        let (mut inside, mut elsewhere) = (BTreeSet::new(), Vec::new());
        for path in paths {
            match locate(&vault, Path::new(&session.directory), path)? {
                Located::Inside { path, also } => inside.extend([path].into_iter().chain(also)),
                Located::Outside => elsewhere.push(path.clone()),
            }
        }
        let (others, outside) = self.sort_elsewhere(ctx, &session, elsewhere)?;
        let open = |vault: Arc<Vault>, paths: BTreeSet<RelPath>| {
            let group = group_of(&turn.session);
            let before = self.capture_if_possible(ctx, &vault, &group, Some(&paths))?;
            self.announce(ctx, turn, part, &session, Some(vault), Some(paths), before)
        };
        let call = open(vault, inside)?;
        let beside = others.into_values().map(|(vault, paths)| open(vault, paths));
        Ok(Call { outside, beside: beside.collect::<Result<_>>()?, ..call })
    }

    /// Finds which paths lie in other roots of the project, and which in none.
    fn sort_elsewhere(
        &self,
        ctx: &Context,
        session: &Session,
        paths: Vec<PathBuf>,
    ) -> Result<(Elsewhere, Vec<PathBuf>)> {
        let (mut found, mut outside) = (Elsewhere::new(), Vec::new());
        if paths.is_empty() {
            return Ok((found, outside));
        }
        let project = self.store.read(ctx, |r| r.find_project(&session.project))?;
        let roots: Vec<String> = project
            .map(|project| std::iter::once(project.worktree).chain(project.sandboxes).collect())
            .unwrap_or_default();
        for path in paths {
            match self.locate_elsewhere(session, &roots, &path, ctx.now)? {
                Some((vault, Located::Inside { path, also })) => {
                    let root = vault.place().root.clone();
                    let (_, paths) = found.entry(root).or_insert((vault, BTreeSet::new()));
                    paths.extend([path].into_iter().chain(also));
                }
                Some((_, Located::Outside)) | None => outside.push(path),
            }
        }
        Ok((found, outside))
    }

    /// Announces a call that names nothing: the whole root is captured before this returns.
    ///
    /// # Errors
    ///
    /// As [`Engine::open_named`].
    pub fn open_window(&self, ctx: &Context, turn: &Turn, part: Option<&PartId>) -> Result<Call> {
        let session = self.store.read(ctx, |r| r.get_session(&turn.session))?;
        let (vault, before) = match self.cover(&session, ctx.now)? {
            Cover::Vault(vault) => {
                let group = group_of(&turn.session);
                let before = self.capture_if_possible(ctx, &vault, &group, None)?;
                (Some(vault), before)
            }
            Cover::Refused(_) => (None, None),
        };
        self.announce(ctx, turn, part, &session, vault, None, before)
    }

    #[expect(clippy::too_many_arguments, reason = "the two ways to open meet here")]
    fn announce(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        session: &Session,
        vault: Option<Arc<Vault>>,
        named: Option<BTreeSet<RelPath>>,
        before: Option<Capture>,
    ) -> Result<Call> {
        let id = self.mint.change(ctx.now)?;
        let uncovered = || Root { store: String::new(), path: session.directory.clone() };
        let root = vault.as_deref().map_or_else(uncovered, root_of);
        let open = OpenChange {
            id: id.clone(),
            turn: turn.id.clone(),
            part: part.cloned(),
            git: git_point(Path::new(&root.path)),
            root,
            evidence: if named.is_some() { Evidence::Named } else { Evidence::Window },
            outer: self.outer_window(ctx, session)?,
            named: named.iter().flatten().cloned().collect(),
            before: before.as_ref().map(|capture| capture.id.to_string()),
        };
        let name = turn.session.clone();
        self.store.write(&turn.context(ctx), move |tx| tx.open_change(&name, &open)).wait()?;
        fail::fail_point!("engine::call_open");
        Ok(Call { id, outside: Vec::new(), beside: Vec::new(), vault, before, named })
    }

    /// The open window of the session that began this one: what a child does is inside it (R3).
    fn outer_window(&self, ctx: &Context, session: &Session) -> Result<Option<ChangeId>> {
        let Some(parent) = &session.parent else {
            return Ok(None);
        };
        let open = self.store.read(ctx, |r| r.open_changes(None))?;
        let of_parent = open.into_iter().rev().find(|row| row.set.session == *parent);
        Ok(of_parent.map(|row| row.set.id))
    }
}
