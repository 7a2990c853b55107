//! Which files of a capture the user's repositories prove, and the loan for their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::lend::{Wanted, lend};
use super::{belief, terms};
use crate::cache::{Cached, mode_of};
use crate::object::{Leaf, Oid};
use crate::path::RelPath;
use crate::picture::Picture;
use crate::shadow::Shadow;
use crate::vcs::{Index, Repo, UserGit};
use crate::walk::{Found, Listing};
use crate::worktree::Stat;

/// A file and what the kernel said of it.
pub(crate) type Seen = (RelPath, Stat);

/// Files whose bytes are known, and files that must be read.
pub(crate) type Sorted = (Vec<(RelPath, Cached)>, Vec<Seen>);

/// What of a worktree matters to a loan.
pub(crate) struct Ground {
    /// Files called `.gitattributes`, captured or not.
    attributes: BTreeSet<RelPath>,
    /// The repositories, by the folder they begin in.
    repos: BTreeMap<Vec<u8>, Arc<Repo>>,
}

impl Ground {
    /// Looks through what is known and what was found now.
    pub(crate) fn survey(picture: &Picture, found: &Found) -> Self {
        let mut repos: BTreeMap<Vec<u8>, Arc<Repo>> =
            picture.repos().map(|(folder, repo)| (folder.to_vec(), repo.clone())).collect();
        let mut attributes = BTreeSet::new();
        // Where case does not matter, another spelling is the same file.
        let mut note = |folder: &[u8], name: &[u8]| {
            if name.eq_ignore_ascii_case(terms::ATTRIBUTES) {
                attributes.extend(RelPath::below(folder, name).ok());
            }
        };
        picture.names().for_each(|(folder, name)| note(folder, name));
        for Listing { folder, place, is_repo, names, .. } in &found.listings {
            names.iter().for_each(|(name, _)| note(folder, name));
            if let (true, Some(repo)) = (is_repo, &place.repo) {
                repos.insert(folder.clone(), repo.clone());
            }
        }
        found.glances.iter().for_each(|it| note(&it.folder, &it.name));
        Self { attributes, repos }
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
        for repo in ground.repos.values().rev() {
            let (first, count) = below(&files, repo.lead());
            let fresh: Vec<usize> = (first..first + count)
                .filter(|at| !std::mem::replace(&mut claimed[*at], true))
                .collect();
            let claims = self.claims(repo, ground, user, &files, &fresh);
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

    /// What the index of a repository says of its files, and where its packs are.
    fn claims(
        &self,
        repo: &Repo,
        ground: &Ground,
        user: &UserGit,
        files: &[Seen],
        fresh: &[usize],
    ) -> Option<(PathBuf, Vec<Wanted>)> {
        let (index, lead) = (repo.index()?, repo.lead());
        let inside = ground.attributes.iter().filter(|it| it.as_bytes().starts_with(lead));
        let conversions =
            terms::read(&self.worktree, repo, &index, user, &inside.collect()).ok()??;
        let mut claims = matches(&index, files, fresh, lead.len());
        claims.retain(|it| !conversions.touch(&files[it.at].0.as_bytes()[lead.len()..]));
        Some((repo.common_dir().ok()?.join("objects/pack"), claims))
    }
}

/// Where the files below a directory are: the first, and how many.
fn below(files: &[Seen], lead: &[u8]) -> (usize, usize) {
    let first = files.partition_point(|(path, _)| path.as_bytes() < lead);
    let inside = files[first..].partition_point(|(path, _)| path.as_bytes().starts_with(lead));
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
