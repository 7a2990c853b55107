//! Removing and resetting worktrees: refused where work would be lost, captured in any case.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{CreatedWorktree, Project};
use turnstone_core::permission::GatedOperation;
use turnstone_process::Git;
use turnstone_snapshot::PinGroup;
use turnstone_store::Context;

use super::error::WorktreeError;
use crate::error::Result;
use crate::projects::worktree::Worktrees;

/// How many commits and paths are counted at most.
const MAX_LISTED: usize = 100;

/// Work that exists in one worktree and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnsavedWork {
    /// Paths that are not committed.
    pub changes: Vec<String>,
    /// Commits that no other branch, tag or remote has, newest first.
    pub commits: Vec<String>,
}

impl UnsavedWork {
    /// True if nothing would be lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.commits.is_empty()
    }
}

impl fmt::Display for UnsavedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changes, commits) = (self.changes.len(), self.commits.len());
        let counted = |count: usize, noun: &str| match count {
            1 => format!("1 {noun}"),
            count => format!("{count} {noun}s"),
        };
        let (changes, commits) =
            (counted(changes, "uncommitted file"), counted(commits, "unpushed commit"));
        write!(f, "{changes} and {commits}")
    }
}

/// What a removal or a reset would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorktreePlan {
    /// Where.
    pub directory: PathBuf,
    /// The commit it would have after a reset.
    pub commit: Option<String>,
    /// The branch that would go with it, and the commit it names.
    pub branch: Option<(String, String)>,
    /// What would be lost: refused without `force`, and captured even then.
    pub lost: UnsavedWork,
}

/// What a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorktreeRemovalReport {
    /// Where it was.
    pub directory: PathBuf,
    /// The capture of its files before; `None` if there were none left.
    pub capture: Option<String>,
    /// The branch that went with it, and the commit it named.
    pub branch: Option<(String, String)>,
    /// What existed only there.
    pub lost: UnsavedWork,
}

/// What a reset did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorktreeResetReport {
    /// Where.
    pub directory: PathBuf,
    /// Its commit now.
    pub commit: String,
    /// The capture of its files before.
    pub capture: Option<String>,
    /// What existed only there.
    pub lost: UnsavedWork,
}

/// A worktree that Turnstone made, and what would be gone with it.
struct WorktreeFacts {
    git: Git,
    made: CreatedWorktree,
    directory: PathBuf,
    lost: UnsavedWork,
}

impl WorktreeFacts {
    fn plan(self, commit: Option<String>, branch: Option<(String, String)>) -> WorktreePlan {
        WorktreePlan { directory: self.directory, commit, branch, lost: self.lost }
    }

    /// Refuses to lose work without `force`.
    fn ensure_no_loss(&self, force: bool) -> Result<(), WorktreeError> {
        if force || self.lost.is_empty() {
            return Ok(());
        }
        let (directory, work) = (self.directory.clone(), self.lost.clone());
        Err(WorktreeError::UnsavedWork { directory, work })
    }
}

impl Worktrees {
    /// Says what a removal would take away; changes nothing.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotOurs`], or a fact could not be obtained: then there is no plan.
    pub fn plan_removal(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
    ) -> Result<WorktreePlan, WorktreeError> {
        let facts = self.gather_facts(&self.records.get(ctx, project)?, which)?;
        let branch = find_deletable_branch(&facts.git, &facts.made, Some(&facts.directory))?;
        Ok(facts.plan(None, branch))
    }

    /// Says what a reset would do; changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::plan_removal`]; [`WorktreeError::NoDefaultBranch`].
    pub fn plan_reset(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
    ) -> Result<WorktreePlan, WorktreeError> {
        let facts = self.gather_facts(&self.records.get(ctx, project)?, which)?;
        let commit = find_default_commit(&facts.git, project)?;
        Ok(facts.plan(Some(commit), None))
    }

    /// Removes a worktree that Turnstone made, by its name or its directory.
    ///
    /// Cut off half way, the same call finishes it. A directory that is neither there nor known is
    /// as removed as it can be.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotOurs`]; [`WorktreeError::UnsavedWork`] without `force`. Then nothing has
    /// changed.
    pub fn remove(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
        force: bool,
    ) -> Result<WorktreeRemovalReport, WorktreeError> {
        let facts = match self.gather_facts(&self.records.get(ctx, project)?, which) {
            Err(WorktreeError::NotOurs(directory)) if which.is_absolute() && !has_entry(which)? => {
                return Ok(WorktreeRemovalReport { directory, ..Default::default() });
            }
            facts => facts?,
        };
        self.gates.require_in_project(
            ctx,
            project,
            GatedOperation::Worktree,
            std::slice::from_ref(&facts.made.directory),
        )?;
        facts.ensure_no_loss(force)?;
        let WorktreeFacts { git, made, directory, lost } = facts;
        let capture = self.capture_worktree(ctx, &made)?;
        // Another one of that name would be another directory.
        self.snapshots.close(std::iter::once(&made.directory));
        self.remove_checkout(&git, &directory)?;
        fail::fail_point!("engine::worktree_removed", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let branch = delete_branch(&git, &made)?;
        self.records.modify(ctx, project, move |project| {
            project.worktrees.retain(|one| one.directory != made.directory);
            project.sandboxes.retain(|one| *one != made.directory);
            project.aliases.retain(|alias| alias.value != made.directory);
        })?;
        Ok(WorktreeRemovalReport { directory, capture, branch, lost })
    }

    /// Puts a worktree that Turnstone made back to the default branch; ignored files stay.
    ///
    /// # Errors
    ///
    /// As [`Self::remove`]; [`WorktreeError::Primary`] for the project's own directory.
    pub fn reset(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
        force: bool,
    ) -> Result<WorktreeResetReport, WorktreeError> {
        let facts = self.gather_facts(&self.records.get(ctx, project)?, which)?;
        self.gates.require_in_project(
            ctx,
            project,
            GatedOperation::Worktree,
            std::slice::from_ref(&facts.made.directory),
        )?;
        let commit = find_default_commit(&facts.git, project)?;
        facts.ensure_no_loss(force)?;
        let WorktreeFacts { made, directory, lost, .. } = facts;
        let capture = self.capture_worktree(ctx, &made)?;
        let inside = self.repositories.get_at(&directory)?;
        inside.reset_hard(&commit)?;
        inside.remove_untracked()?;
        let left: Vec<String> = list_uncommitted_paths(&inside)?;
        match left.is_empty() {
            true => Ok(WorktreeResetReport { directory, commit, capture, lost }),
            false => Err(WorktreeError::LeftChanges { directory, paths: left }),
        }
    }

    /// What has to be known before a worktree is removed or reset.
    fn gather_facts(
        &self,
        project: &Project,
        which: &Path,
    ) -> Result<WorktreeFacts, WorktreeError> {
        let git = self.open_project_repository(project)?;
        let made = find_created_worktree(project, which)
            .ok_or_else(|| not_removable_error(project, which))?
            .clone();
        let lost = self.find_unsaved_work_with(&git, &made)?;
        Ok(WorktreeFacts { git, directory: PathBuf::from(&made.directory), made, lost })
    }

    /// Removes a worktree that could not be created; clients get the reason.
    pub(crate) fn discard(
        &self,
        ctx: &Context,
        project: &ProjectId,
        made: &CreatedWorktree,
        why: &WorktreeError,
    ) -> Result<(), WorktreeError> {
        let git = self.open_project_repository(&self.records.get(ctx, project)?)?;
        self.snapshots.close(std::iter::once(&made.directory));
        self.remove_checkout(&git, Path::new(&made.directory))?;
        delete_branch(&git, made)?;
        Ok(self.record_failure(ctx, project, made, &why.to_string())?)
    }

    /// What would be gone with a worktree of a project.
    pub(crate) fn find_unsaved_work(
        &self,
        project: &Project,
        made: &CreatedWorktree,
    ) -> Result<UnsavedWork, WorktreeError> {
        let git = self.open_project_repository(project)?;
        self.find_unsaved_work_with(&git, made)
    }

    /// What would be gone with a worktree.
    fn find_unsaved_work_with(
        &self,
        git: &Git,
        made: &CreatedWorktree,
    ) -> Result<UnsavedWork, WorktreeError> {
        let mut work = UnsavedWork::default();
        if let Some(branch) = own_branch(git, made)? {
            work.commits = git.history().list_commits_only_on(branch, MAX_LISTED)?;
        }
        let directory = Path::new(&made.directory);
        // A making that was cut off may have left a folder that is no checkout yet.
        if has_entry(&directory.join(".git"))? {
            let inside = self.repositories.get_at(directory)?;
            work.changes = list_uncommitted_paths(&inside)?;
            for commit in inside.history().list_unnamed_commits(MAX_LISTED)? {
                if !work.commits.contains(&commit) {
                    work.commits.push(commit);
                }
            }
        }
        Ok(work)
    }

    fn capture_worktree(&self, ctx: &Context, made: &CreatedWorktree) -> Result<Option<String>> {
        let directory = Path::new(&made.directory);
        if !has_entry(&directory.join(".git"))? {
            return Ok(None);
        }
        let handle = self.snapshots.open(directory, ctx.now)?;
        let group = PinGroup::new(&format!("worktree {}", made.directory));
        Ok(Some(handle.capture(&group, ctx.now)?.capture.id.to_string()))
    }

    /// Takes the checkout away; `git` first, then what it left.
    fn remove_checkout(&self, git: &Git, directory: &Path) -> Result<(), WorktreeError> {
        let is_listed = |git: &Git| -> Result<bool, WorktreeError> {
            Ok(git.worktrees().list()?.iter().any(|row| row.path == directory))
        };
        if directory.is_dir() && is_listed(git)? {
            let removed = git.worktrees().remove(directory);
            // It may have failed after it had let go: what counts is what it says now.
            if removed.is_err() && is_listed(git)? {
                return Ok(removed?);
            }
        }
        if has_entry(directory)? {
            if !fs_err::symlink_metadata(directory)?.is_dir() {
                return Err(WorktreeError::NotOurs(directory.to_owned()));
            }
            fs_err::remove_dir_all(directory)?;
        }
        if is_listed(git)? {
            git.worktrees().prune()?;
        }
        Ok(())
    }
}

/// True if there is anything of that name; what cannot be looked at is not taken for nothing.
fn has_entry(path: &Path) -> std::io::Result<bool> {
    use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match fs_err::symlink_metadata(path) {
        Ok(_) => Ok(true),
        // No file has a name that is too long, or lies below another file.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Every path that is not committed.
fn list_uncommitted_paths(git: &Git) -> Result<Vec<String>, WorktreeError> {
    let shown =
        |change: &turnstone_process::GitStatusEntry| change.path.to_string_lossy().into_owned();
    Ok(git.status()?.iter().take(MAX_LISTED).map(shown).collect())
}

/// The worktree of that name or directory, if Turnstone made it.
fn find_created_worktree<'p>(project: &'p Project, which: &Path) -> Option<&'p CreatedWorktree> {
    let real = fs_err::canonicalize(which).unwrap_or_else(|_| which.to_owned());
    project
        .worktrees
        .iter()
        .find(|made| Path::new(&made.directory) == real || Path::new(&made.name) == which)
}

fn not_removable_error(project: &Project, which: &Path) -> WorktreeError {
    let real = fs_err::canonicalize(which).unwrap_or_else(|_| which.to_owned());
    match real == Path::new(&project.worktree) {
        true => WorktreeError::Primary(real),
        false => WorktreeError::NotOurs(which.to_owned()),
    }
}

/// The branch that was made with a worktree, if it is still there.
fn own_branch<'m>(git: &Git, made: &'m CreatedWorktree) -> Result<Option<&'m str>, WorktreeError> {
    let Some(branch) = made.branch.as_deref() else {
        return Ok(None);
    };
    let is_there = git.history().find_commit(&format!("refs/heads/{branch}"))?.is_some();
    Ok(Some(branch).filter(|_| is_there))
}

/// The branch that was made with a worktree and the commit it names, unless it is checked
/// out: then it is theirs. The checkout at `going` does not count.
fn find_deletable_branch(
    git: &Git,
    made: &CreatedWorktree,
    going: Option<&Path>,
) -> Result<Option<(String, String)>, WorktreeError> {
    let Some(branch) = own_branch(git, made)? else {
        return Ok(None);
    };
    let name = format!("refs/heads/{branch}");
    let Some(commit) = git.history().find_commit(&name)? else {
        return Ok(None);
    };
    let held = turnstone_process::WorktreeCheckout::Named(name);
    let used = git.worktrees().list()?;
    let is_held = used.iter().any(|row| row.branch == held && Some(row.path.as_path()) != going);
    Ok((!is_held).then(|| (branch.to_owned(), commit)))
}

/// Deletes the branch that was made with a worktree, unless it moves at this moment or another worktree
/// has it checked out elsewhere: then it is theirs.
fn delete_branch(
    git: &Git,
    made: &CreatedWorktree,
) -> Result<Option<(String, String)>, WorktreeError> {
    let Some((branch, commit)) = find_deletable_branch(git, made, None)? else {
        return Ok(None);
    };
    git.history().delete_branch(&branch, &commit)?;
    Ok(Some((branch, commit)))
}

/// The commit of the default branch (snapshots.md 5.1); nothing is fetched.
fn find_default_commit(git: &Git, project: &ProjectId) -> Result<String, WorktreeError> {
    let names = [
        "refs/remotes/origin/HEAD",
        "refs/remotes/upstream/HEAD",
        "refs/heads/main",
        "refs/heads/master",
    ];
    for name in names {
        if let Some(commit) = git.history().find_commit(name)? {
            return Ok(commit);
        }
    }
    Err(WorktreeError::NoDefaultBranch(project.clone()))
}
