//! Which files the user's repositories prove unchanged, and the borrowed packs with their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::pack_linking::{WantedBlob, link_packs};
use super::{reuse_conditions, stat_proof};
use crate::object_store::{Oid, TreeLeaf};
use crate::path::RelPath;
use crate::snapshot_store::SnapshotStore;
use crate::stat_cache::{CachedFile, leaf_mode_of};
use crate::user_git::{GitIndex, UserGitSettings, UserRepository};
use crate::worktree::{FileStat, Worktree};
use crate::worktree_index::WorktreeIndex;
use crate::worktree_walk::{FolderListing, ScanDelta};

/// A file and its stat.
pub(crate) type StatFile = (RelPath, FileStat);

/// Files whose bytes are known, and files that must be read.
pub(crate) type ReuseSplit = (Vec<(RelPath, CachedFile)>, Vec<StatFile>);

/// What of a worktree matters for pack reuse.
pub(crate) struct ReuseContext {
    /// Files called `.gitattributes`, captured or not.
    attributes: BTreeSet<RelPath>,
    /// The repositories, by the folder they begin in.
    repos: BTreeMap<Vec<u8>, Arc<UserRepository>>,
}

impl ReuseContext {
    /// Looks through what is known and what was found now.
    pub(crate) fn collect(worktree_index: &WorktreeIndex, found: &ScanDelta) -> Self {
        let mut repos: BTreeMap<Vec<u8>, Arc<UserRepository>> = worktree_index
            .repositories()
            .map(|(folder, repo)| (folder.to_vec(), repo.clone()))
            .collect();
        let mut attributes = BTreeSet::new();
        // Where case does not matter, another spelling is the same file.
        let mut note = |folder: &[u8], name: &[u8]| {
            if name.eq_ignore_ascii_case(reuse_conditions::ATTRIBUTES_FILE) {
                attributes.extend(RelPath::in_folder(folder, name).ok());
            }
        };
        worktree_index.entry_names().for_each(|(folder, name)| note(folder, name));
        for FolderListing { folder, rules: place, is_repo, entries: names, .. } in &found.listings {
            names.iter().for_each(|(name, _)| note(folder, name));
            if let (true, Some(repo)) = (is_repo, &place.repo) {
                repos.insert(folder.clone(), repo.clone());
            }
        }
        found.entries.iter().for_each(|it| note(&it.folder, &it.name));
        Self { attributes, repos }
    }
}

/// Parts `files`, sorted by path, into those the user's repositories prove and those to be read.
///
/// The objects of the proven ones are in the store and durable. Whatever fails on the way
/// proves nothing; only a store that cannot be written is an error.
pub(crate) fn split_reusable(
    store: &SnapshotStore,
    context: &ReuseContext,
    files: Vec<StatFile>,
    clock: i64,
) -> io::Result<ReuseSplit> {
    let Some(user) = &store.selection.user_git else {
        return Ok((Vec::new(), files));
    };
    let mut blobs: Vec<Option<Oid>> = vec![None; files.len()];
    let mut claimed = vec![false; files.len()];
    let mut is_reused = false;
    // The deepest first: a file belongs to the innermost repository around it.
    for repo in context.repos.values().rev() {
        let (first, count) = range_below(&files, repo.prefix());
        let fresh: Vec<usize> = (first..first + count)
            .filter(|at| !std::mem::replace(&mut claimed[*at], true))
            .collect();
        let claims = match_index(&store.worktree, repo, context, user, &files, &fresh);
        let Some((folders, claims)) = claims else {
            continue;
        };
        for reused in link_packs(&folders, &store.repository.pack_folder(), claims)? {
            blobs[reused.at] = Some(reused.blob);
            is_reused = true;
        }
    }
    if is_reused {
        store.repository.reopen()?;
    }
    let (mut proven, mut rest) = (Vec::with_capacity(files.len()), Vec::new());
    for ((path, stat), blob) in files.into_iter().zip(blobs) {
        match blob {
            Some(blob) => {
                let leaf = TreeLeaf { blob, mode: leaf_mode_of(&stat) };
                proven.push((path, CachedFile::new(stat, leaf, clock)));
            }
            None => rest.push((path, stat)),
        }
    }
    Ok((proven, rest))
}

/// What the index of a repository records of its files, and where its objects are.
fn match_index(
    worktree: &Worktree,
    repo: &UserRepository,
    context: &ReuseContext,
    user: &UserGitSettings,
    files: &[StatFile],
    fresh: &[usize],
) -> Option<(Vec<PathBuf>, Vec<WantedBlob>)> {
    let (index, lead) = (repo.index()?, repo.prefix());
    let inside = context.attributes.iter().filter(|it| it.as_bytes().starts_with(lead));
    let conversions =
        reuse_conditions::read_conversions(worktree, repo, &index, user, &inside.collect())
            .ok()??;
    let mut claims = match_entries(&index, files, fresh, lead.len());
    claims.retain(|it| !conversions.may_convert(&files[it.at].0.as_bytes()[lead.len()..]));
    Some((repo.object_folders().ok()?, claims))
}

/// Where the files below a directory are: the first, and how many.
fn range_below(files: &[StatFile], lead: &[u8]) -> (usize, usize) {
    let first = files.partition_point(|(path, _)| path.as_bytes() < lead);
    let inside = files[first..].partition_point(|(path, _)| path.as_bytes().starts_with(lead));
    (first, inside)
}

/// Goes through files and index side by side; both are sorted.
fn match_entries(
    index: &GitIndex,
    files: &[StatFile],
    fresh: &[usize],
    prefix: usize,
) -> Vec<WantedBlob> {
    let mut entries = index.entries().iter().peekable();
    let mut found = Vec::with_capacity(fresh.len());
    for at in fresh.iter().copied() {
        let (path, stat) = &files[at];
        let path = &path.as_bytes()[prefix..];
        while entries.next_if(|entry| index.path(entry) < path).is_some() {}
        let entry = entries.peek().filter(|entry| index.path(entry) == path);
        if let Some(entry) =
            entry.filter(|entry| stat_proof::proves_unchanged(entry, stat, index.time))
        {
            found.push(WantedBlob { at, blob: Oid(entry.blob), size: stat.size });
        }
    }
    found
}
