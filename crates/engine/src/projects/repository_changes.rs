//! What git reports about a repository: its branches and the files that differ from a commit. Changes nothing.

use std::path::{Path, PathBuf};

use turnstone_process::{Git, GitError, GitStatusEntry};
use turnstone_snapshot::{UntrackedFiles, read_git_position};

use super::git_patch::{FilePatch, split_patch};
use super::repository::Repositories;
use crate::error::Result;

/// New files whose content is shown; of more, only the names.
const MAX_NEW_FILES: usize = 200;
/// The bytes of all patches together; the patches from there on are empty.
const MAX_PATCH_BYTES: usize = 10_000_000;
/// The largest new file whose content is shown, as for files that git compares.
const LARGEST_NEW: u64 = 16 << 20;
/// The bytes of new files that are read for one answer; files from there on are named only.
const MOST_NEW_BYTES: u64 = 128 << 20;

/// The commit that files are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffBase {
    /// The last commit.
    Head,
    /// The commit where the branch of the checkout left the default branch.
    MergeBase,
}

/// The branches of a checkout, without `refs/heads/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckoutBranches {
    /// The branch of the checkout; `None` if its head is detached.
    pub current: Option<String>,
    /// The branch its work goes back to, if it is known.
    pub default: Option<String>,
}

/// A repository that is only read.
pub struct RepositoryReader {
    git: Git,
}

impl Repositories {
    /// Finds the repository whose worktree holds a directory, to read it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`Repositories::find`].
    pub fn find_reader(&self, directory: &Path) -> Result<Option<RepositoryReader>> {
        Ok(self.find(directory)?.map(|git| RepositoryReader { git }))
    }
}

impl RepositoryReader {
    /// The folder that all worktrees of the repository share.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.git.repository().common_dir
    }

    /// Returns the branches of the checkout. The current one is known even if git is missing.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn branches(&self) -> Result<CheckoutBranches, GitError> {
        let current = head_branch(&self.git)?;
        let short =
            |name: String| name.strip_prefix("refs/heads/").map(str::to_owned).unwrap_or(name);
        let default = match self.git.history().find_default_branch() {
            Err(GitError::Missing | GitError::TooOld { .. }) => None,
            found => found?,
        };
        Ok(CheckoutBranches { current: current.map(short), default })
    }

    /// Lists every file that differs from a commit, by name, untracked files included; empty if there is no
    /// merge base.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn changed_files(
        &self,
        base: DiffBase,
        context_lines: u32,
    ) -> Result<Vec<FilePatch>, GitError> {
        let commit = match base {
            DiffBase::Head => head_commit(&self.git)?,
            DiffBase::MergeBase => match merge_base_with_default(&self.git)? {
                None => return Ok(Vec::new()),
                found => found,
            },
        };
        all_patches(&self.git, commit.as_deref(), context_lines)
    }
}

/// The branch of the checkout. Small files say it; git is asked only where they do not.
fn head_branch(git: &Git) -> Result<Option<String>, GitError> {
    match read_git_position(&git.repository().worktree) {
        Some(point) if !point.unknown => Ok(point.branch),
        Some(_) | None => git.history().find_head_branch(),
    }
}

/// The commit of the checkout, found like its branch; a commit that is missing is found out where it is used.
fn head_commit(git: &Git) -> Result<Option<String>, GitError> {
    match read_git_position(&git.repository().worktree) {
        Some(point) if !point.unknown => Ok(point.head),
        Some(_) | None => git.history().find_commit("HEAD"),
    }
}

/// Where the branch of the checkout parted from the one its work goes back to; nothing on that one itself,
/// or if there is none.
fn merge_base_with_default(git: &Git) -> Result<Option<String>, GitError> {
    let (Some(head), Some(name)) = (head_commit(git)?, git.history().find_default_branch()?) else {
        return Ok(None);
    };
    let current = head_branch(git)?;
    if current.is_some_and(|on| on.strip_prefix("refs/heads/").unwrap_or(&on) == name) {
        return Ok(None);
    }
    for from in [format!("refs/remotes/origin/{name}"), format!("refs/heads/{name}")] {
        if let Some(commit) = git.history().find_commit(&from)? {
            return git.history().find_merge_base(&commit, &head);
        }
    }
    Ok(None)
}

/// Every file `git` knows that differs from a commit.
fn tracked_patches(
    git: &Git,
    base: Option<&str>,
    context: u32,
) -> Result<Vec<FilePatch>, GitError> {
    match git.diff_since(base, context) {
        Ok(patch) => Ok(split_patch(&String::from_utf8_lossy(&patch))),
        // Too much to show is still to be named and counted.
        Err(GitError::TooMuch { .. }) => {
            Ok(git.diff_summary_since(base)?.iter().map(FilePatch::counted).collect())
        }
        Err(error) => Err(error),
    }
}

/// Every file that differs, by name, those git does not know included.
fn all_patches(git: &Git, base: Option<&str>, context: u32) -> Result<Vec<FilePatch>, GitError> {
    let mut all = tracked_patches(git, base, context)?;
    let changes = git.status()?;
    let new = changes.into_iter().filter(GitStatusEntry::is_untracked).map(|change| change.path);
    all.extend(untracked(git, new.collect())?);
    all.sort_by(|a, b| a.file.cmp(&b.file));
    truncate_patches(&mut all, MAX_PATCH_BYTES);
    Ok(all)
}

/// The files git does not know, read by ourselves: git would follow links and wait for pipes.
fn untracked(git: &Git, mut paths: Vec<PathBuf>) -> Result<Vec<FilePatch>, GitError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let names_by_sha1 = git.names_by_sha1()?;
    let worktree = &git.repository().worktree;
    let unopened = |source| GitError::Start { dir: worktree.clone(), source };
    let files = UntrackedFiles::open(worktree, names_by_sha1).map_err(unopened)?;
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let (mut unread, mut shown) = (MOST_NEW_BYTES, 0_usize);
    let patch_of = |(count, path): (usize, PathBuf)| {
        let name = path.to_string_lossy().into_owned();
        if count >= MAX_NEW_FILES {
            return FilePatch::without_patch(name);
        }
        match files.patch(&path, LARGEST_NEW.min(unread)) {
            Ok(made) => {
                unread = unread.saturating_sub(made.size as u64);
                shown = shown.saturating_add(made.patch.len());
                // Every file before this one is shown before it: this patch would be emptied later.
                let text = if shown > MAX_PATCH_BYTES { Vec::new() } else { made.patch };
                let patch = Some(String::from_utf8_lossy(&text).into_owned());
                FilePatch { patch, additions: made.additions, ..FilePatch::without_patch(name) }
            }
            // A repository of its own, a file too large, a special file, or one that has just gone: it
            // is named, and all others are shown.
            Err(error) => {
                tracing::debug!("{name} is named without a patch: {error}");
                FilePatch::without_patch(name)
            }
        }
    };
    Ok(paths.into_iter().enumerate().map(patch_of).collect())
}

/// Empties the patch that goes beyond `most` bytes in all, and those after it.
fn truncate_patches(all: &mut [FilePatch], most: usize) {
    let mut total = 0_usize;
    for patch in all.iter_mut().filter_map(|one| one.patch.as_mut()) {
        total = total.saturating_add(patch.len());
        if total > most {
            total = usize::MAX;
            patch.clear();
        }
    }
}
