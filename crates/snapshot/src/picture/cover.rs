//! Coverage from a picture: made again only when one of its lists changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::{Item, Picture, join};
use super::tally::perm;
use crate::coverage::{Coverage, Permissions, Reason, Scope};
use crate::object::{LeafMode, Oid};
use crate::path::{RelPath, below};

/// A coverage, and its commit in the store once it is there.
#[derive(Clone)]
pub(super) struct Described {
    coverage: Arc<Coverage>,
    pub(super) commit: Option<Oid>,
    /// The forced paths it was made for.
    forced: Arc<BTreeSet<RelPath>>,
    /// Those of them that can only be reached through a link.
    behind: Vec<RelPath>,
}

impl Picture {
    /// What the picture covers, and the commit of it if it is in the store already.
    pub(crate) fn cover(
        &mut self,
        forced: &Arc<BTreeSet<RelPath>>,
    ) -> (Arc<Coverage>, Option<Oid>) {
        self.settle_permissions();
        let looked = match &self.described {
            Some(last) if Arc::ptr_eq(&last.forced, forced) => self.tally.moved,
            _ => true,
        };
        let (absent, behind) = match (&self.described, looked && !forced.is_empty()) {
            (Some(last), false) if !looked => (last.coverage.absent.clone(), last.behind.clone()),
            (_, false) => (Vec::new(), Vec::new()),
            (_, true) => self.look_for(forced),
        };
        let is_new = self.described.as_ref().is_none_or(|last| {
            self.tally.stale || last.coverage.absent != absent || last.behind != behind
        });
        if is_new {
            let coverage = self.gather(absent, &behind);
            let same = self.described.take().filter(|last| *last.coverage == coverage);
            let (coverage, commit) = match same {
                Some(last) => (last.coverage, last.commit),
                None => (Arc::new(coverage), None),
            };
            self.described = Some(Described { coverage, commit, forced: forced.clone(), behind });
        }
        (self.tally.stale, self.tally.moved) = (false, false);
        let last = self.described.as_mut();
        last.map_or_else(Default::default, |last| {
            last.forced = forced.clone();
            (last.coverage.clone(), last.commit)
        })
    }

    /// The forced paths when the picture was last described.
    pub(crate) fn forced(&self) -> Arc<BTreeSet<RelPath>> {
        self.described.as_ref().map(|last| last.forced.clone()).unwrap_or_default()
    }

    /// The forced paths that were not when the picture was last described.
    pub(crate) fn newly_forced<'f>(
        &self,
        forced: &'f BTreeSet<RelPath>,
    ) -> impl Iterator<Item = &'f RelPath> {
        let before = self.forced();
        let is_known = before.len() == forced.len();
        forced.iter().filter(move |path| !is_known && !before.contains(*path))
    }

    /// Notes that the coverage is in the store as this commit.
    pub(crate) fn describe(&mut self, commit: Oid) {
        if let Some(last) = &mut self.described {
            last.commit = Some(commit);
        }
    }

    /// Looks which permission bits are usual; all files are asked if the answer is another.
    fn settle_permissions(&mut self) {
        let usual = self.tally.most();
        if usual == self.tally.usual {
            return;
        }
        self.tally.usual = usual;
        self.tally.odd.clear();
        self.tally.stale = true;
        for (folder, node) in &self.nodes {
            for (name, item) in &node.items {
                if let Item::File(cached) = item
                    && let Some(perm) = perm(cached).filter(|perm| !self.tally.is_usual(*perm))
                    && let Ok(path) = below(folder, name)
                {
                    self.tally.odd.insert(path, perm);
                }
            }
        }
    }

    fn gather(&self, absent: Vec<RelPath>, behind: &[RelPath]) -> Coverage {
        let mut skipped = self.tally.skipped.clone();
        skipped.extend(behind.iter().map(|path| (path.clone(), Reason::BehindLink)));
        let nested = self.tally.repos.keys().filter_map(|folder| RelPath::new(&folder[..]).ok());
        let [file, exec] = self.tally.usual;
        let other = self.tally.odd.iter().map(|(path, perm)| (path.clone(), *perm)).collect();
        Coverage {
            scope: Scope::Whole,
            skipped: skipped.into_iter().collect(),
            absent,
            nested: nested.collect(),
            reserved: self.tally.reserved,
            permissions: Permissions { file, exec, other },
        }
    }

    /// Which forced paths are not there, and which lie behind a link.
    fn look_for(&self, forced: &BTreeSet<RelPath>) -> (Vec<RelPath>, Vec<RelPath>) {
        let (mut absent, mut behind) = (Vec::new(), Vec::new());
        for path in forced {
            match self.absence(path) {
                Absence::Absent => absent.push(path.clone()),
                Absence::BehindLink => behind.push(path.clone()),
                Absence::No => {}
            }
        }
        (absent, behind)
    }

    fn absence(&self, path: &RelPath) -> Absence {
        let mut folder = Vec::new();
        let mut parts = path.parts().peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            match self.nodes.get(&folder).and_then(|node| node.find(part)) {
                // There is no file of this name; what is below has names of its own.
                None => return Absence::Absent,
                Some(Item::Folder(_)) if is_last => return Absence::Absent,
                Some(Item::Folder(_)) => folder = join(&folder, part),
                Some(Item::File(_) | Item::Skipped(_)) if is_last => return Absence::No,
                Some(Item::File(cached)) if cached.leaf.mode == LeafMode::Link => {
                    return Absence::BehindLink;
                }
                Some(Item::File(_)) => return Absence::Absent,
                // Nothing is below a file, whatever kept it from being read.
                Some(Item::Skipped(Reason::Special | Reason::TooLarge | Reason::Changing)) => {
                    return Absence::Absent;
                }
                Some(Item::Skipped(_)) => return Absence::No,
            }
        }
        Absence::No
    }
}

/// Why a forced path is not captured.
enum Absence {
    Absent,
    BehindLink,
    /// It is captured, or skipped for a reason that is told.
    No,
}
