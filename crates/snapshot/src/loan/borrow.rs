//! Which files of a capture the user's repositories prove, and the loan for their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::lend::{Wanted, lend};
use super::{belief, terms};
use crate::cache::{Cached, mode_of};
use crate::coverage::Reason;
use crate::object::{Leaf, Oid};
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::vcs::{Index, Repo, UserGit};
use crate::worktree::Stat;

/// A file and what the kernel said of it.
pub(crate) type Seen = (RelPath, Stat);

/// Files whose bytes are known, and files that must be read.
pub(crate) type Sorted = (Vec<(RelPath, Cached)>, Vec<Seen>);

/// What a walk found that matters to a loan.
pub(crate) struct Ground {
    /// Files called `.gitattributes`, captured or not.
    attributes: BTreeSet<RelPath>,
    nested: Vec<RelPath>,
}

impl Ground {
    /// Looks through the results of a walk.
    pub(crate) fn survey(
        files: &[Seen],
        skipped: &BTreeMap<RelPath, Reason>,
        nested: &[RelPath],
    ) -> Self {
        let all = files.iter().map(|(path, _)| path).chain(skipped.keys());
        // Where case does not matter, another spelling is the same file.
        let named = all.filter(|path| path.name().eq_ignore_ascii_case(terms::ATTRIBUTES));
        Self { attributes: named.cloned().collect(), nested: nested.to_vec() }
    }
}

impl Shadow {
    /// Parts `files`, sorted by path, into those the user's repositories prove and those to be read.
    ///
    /// The objects of the proven ones are in the store and durable. Whatever goes wrong on the way
    /// proves nothing; only a store that cannot be written is an error.
    pub(crate) fn borrow(
        &self,
        ground: &Ground,
        files: Vec<Seen>,
        clock: i64,
    ) -> io::Result<Sorted> {
        let Some(user) = &self.selection.user_git else {
            return Ok((Vec::new(), files));
        };
        let mut blobs: Vec<Option<Oid>> = vec![None; files.len()];
        let mut claimed = vec![false; files.len()];
        let mut is_lent = false;
        // The deepest first: a file belongs to the innermost repository around it.
        for path in ground.nested.iter().rev().map(Some).chain([None]) {
            let (first, count) = below(&files, path);
            let fresh: Vec<usize> = (first..first + count)
                .filter(|at| !std::mem::replace(&mut claimed[*at], true))
                .collect();
            let claims = self.claims(path, ground, user, &files, &fresh);
            let Some((folder, claims)) = claims else {
                continue;
            };
            for lent in lend(&folder, &self.repository.pack_folder(), claims)? {
                blobs[lent.at] = Some(lent.blob);
                is_lent = true;
            }
        }
        if is_lent {
            self.repository.reopen()?;
        }
        let (mut proven, mut rest) = (Vec::with_capacity(files.len()), Vec::new());
        for ((path, stat), blob) in files.into_iter().zip(blobs) {
            match blob {
                Some(blob) => {
                    let leaf = Leaf { blob, mode: mode_of(&stat) };
                    proven.push((path, Cached::new(stat, leaf, clock)));
                }
                None => rest.push((path, stat)),
            }
        }
        Ok((proven, rest))
    }

    /// What the index of the repository at `path` says of its files, and where its packs are.
    fn claims(
        &self,
        path: Option<&RelPath>,
        ground: &Ground,
        user: &UserGit,
        files: &[Seen],
        fresh: &[usize],
    ) -> Option<(std::path::PathBuf, Vec<Wanted>)> {
        let dir = self.worktree.open_dir(path).ok()?;
        let repo = Repo::find(&self.worktree, path, &dir)?;
        let index = repo.index()?;
        let inside =
            ground.attributes.iter().filter(|it| path.is_none_or(|path| path.is_above(it)));
        let conversions =
            terms::read(&self.worktree, &repo, index, user, &inside.collect()).ok()??;
        let mut claims = matches(index, files, fresh, repo.prefix());
        claims.retain(|it| !conversions.touch(&files[it.at].0.as_bytes()[repo.prefix()..]));
        Some((repo.common_dir().ok()?.join("objects/pack"), claims))
    }
}

/// Where the files below a directory are: the first, and how many.
fn below(files: &[Seen], path: Option<&RelPath>) -> (usize, usize) {
    let Some(path) = path else {
        return (0, files.len());
    };
    let folder = [path.as_bytes(), b"/"].concat();
    let first = files.partition_point(|(path, _)| path.as_bytes() < &folder[..]);
    let inside = files[first..].partition_point(|(path, _)| path.as_bytes().starts_with(&folder));
    (first, inside)
}

/// Goes through files and index side by side; both are sorted.
fn matches(index: &Index, files: &[Seen], fresh: &[usize], prefix: usize) -> Vec<Wanted> {
    let mut entries = index.entries().iter().peekable();
    let mut found = Vec::with_capacity(fresh.len());
    for at in fresh.iter().copied() {
        let (path, stat) = &files[at];
        let path = &path.as_bytes()[prefix..];
        while entries.next_if(|entry| index.path(entry) < path).is_some() {}
        let entry = entries.peek().filter(|entry| index.path(entry) == path);
        if let Some(entry) = entry.filter(|entry| belief::proves(entry, stat, index.time)) {
            found.push(Wanted { at, blob: Oid(entry.blob), size: stat.size });
        }
    }
    found
}
