//! Removing and resetting worktrees: refused where work would be lost, captured in any case.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{MadeWorktree, Project};
use turnstone_core::permission::Gate;
use turnstone_process::Git;
use turnstone_snapshot::Group;
use turnstone_store::Context;

use super::error::WorktreeError;
use crate::engine::Engine;
use crate::error::Result;

/// How many commits and paths are counted; more are not told apart.
const SHOWN: usize = 100;

/// Work that exists in one worktree and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnlyHere {
    /// Paths that are not committed.
    pub changes: Vec<String>,
    /// Commits that no other branch, tag or remote has, newest first.
    pub commits: Vec<String>,
}

impl OnlyHere {
    /// True if nothing would be lost.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.commits.is_empty()
    }
}

impl fmt::Display for OnlyHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changes, commits) = (self.changes.len(), self.commits.len());
        write!(f, "{changes} uncommitted paths and {commits} commits that exist nowhere else")
    }
}

/// What a removal or a reset would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorktreePlan {
    /// Where.
    pub directory: PathBuf,
    /// The commit it would stand at after a reset.
    pub commit: Option<String>,
    /// The branch that would go with it, and the commit it names.
    pub branch: Option<(String, String)>,
    /// What would be gone: refused unless somebody insists, and captured even then.
    pub lost: OnlyHere,
}

/// What a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemovedWorktree {
    /// Where it was.
    pub directory: PathBuf,
    /// The capture of its files before; none if there were none any more.
    pub capture: Option<String>,
    /// The branch that went with it, and the commit it named.
    pub branch: Option<(String, String)>,
    /// What existed only there.
    pub lost: OnlyHere,
}

/// What a reset did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResetWorktree {
    /// Where.
    pub directory: PathBuf,
    /// The commit it stands at now.
    pub commit: String,
    /// The capture of its files before.
    pub capture: Option<String>,
    /// What existed only there.
    pub lost: OnlyHere,
}

/// A worktree that Turnstone made, and what would be gone with it.
struct Facts {
    git: Git,
    made: MadeWorktree,
    directory: PathBuf,
    lost: OnlyHere,
}

impl Facts {
    fn plan(self, commit: Option<String>, branch: Option<(String, String)>) -> WorktreePlan {
        WorktreePlan { directory: self.directory, commit, branch, lost: self.lost }
    }

    /// Refuses what would be gone, unless somebody insists.
    fn agree(&self, force: bool) -> Result<(), WorktreeError> {
        if force || self.lost.is_nothing() {
            return Ok(());
        }
        let (directory, work) = (self.directory.clone(), self.lost.clone());
        Err(WorktreeError::OnlyHere { directory, work })
    }
}

impl Engine {
    /// Says what a removal would take away; changes nothing.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotOurs`], or a fact could not be obtained: then there is no plan.
    pub fn plan_worktree_removal(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
    ) -> Result<WorktreePlan, WorktreeError> {
        let facts = self.worktree_facts(&self.get_project(ctx, project)?, which)?;
        let branch = deletable(&facts.git, &facts.made, Some(&facts.directory))?;
        Ok(facts.plan(None, branch))
    }

    /// Says what a reset would do; changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Engine::plan_worktree_removal`]; [`WorktreeError::NoDefaultBranch`].
    pub fn plan_worktree_reset(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
    ) -> Result<WorktreePlan, WorktreeError> {
        let facts = self.worktree_facts(&self.get_project(ctx, project)?, which)?;
        let commit = default_commit(&facts.git, project)?;
        Ok(facts.plan(Some(commit), None))
    }

    /// Removes a worktree that Turnstone made, by its name or its directory.
    ///
    /// Cut off half way, the same call finishes it. A directory that is neither there nor known is
    /// as removed as it can be.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotOurs`]; [`WorktreeError::OnlyHere`] without `force`. Then nothing has
    /// changed.
    pub fn remove_worktree(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
        force: bool,
    ) -> Result<RemovedWorktree, WorktreeError> {
        let facts = match self.worktree_facts(&self.get_project(ctx, project)?, which) {
            Err(WorktreeError::NotOurs(directory)) if which.is_absolute() && !is_there(which)? => {
                return Ok(RemovedWorktree { directory, ..Default::default() });
            }
            facts => facts?,
        };
        self.require_in(ctx, project, Gate::Worktree, std::slice::from_ref(&facts.made.directory))?;
        facts.agree(force)?;
        let Facts { git, made, directory, lost } = facts;
        let capture = self.capture_worktree(ctx, &made)?;
        // Another one of that name would be another directory.
        self.close_vaults(std::iter::once(&made.directory));
        self.remove_files(&git, &directory)?;
        fail::fail_point!("engine::worktree_removed", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let branch = delete_branch(&git, &made)?;
        self.change_project(ctx, project, move |project| {
            project.worktrees.retain(|one| one.directory != made.directory);
            project.sandboxes.retain(|one| *one != made.directory);
            project.aliases.retain(|alias| alias.value != made.directory);
        })?;
        Ok(RemovedWorktree { directory, capture, branch, lost })
    }

    /// Puts a worktree that Turnstone made back to the default branch; ignored files stay.
    ///
    /// # Errors
    ///
    /// As [`Engine::remove_worktree`]; [`WorktreeError::Primary`] for the project's own directory.
    pub fn reset_worktree(
        &self,
        ctx: &Context,
        project: &ProjectId,
        which: &Path,
        force: bool,
    ) -> Result<ResetWorktree, WorktreeError> {
        let facts = self.worktree_facts(&self.get_project(ctx, project)?, which)?;
        self.require_in(ctx, project, Gate::Worktree, std::slice::from_ref(&facts.made.directory))?;
        let commit = default_commit(&facts.git, project)?;
        facts.agree(force)?;
        let Facts { made, directory, lost, .. } = facts;
        let capture = self.capture_worktree(ctx, &made)?;
        let inside = self.get_repository_at(&directory)?;
        inside.reset_hard(&commit)?;
        inside.clean()?;
        let left: Vec<String> = paths(&inside)?;
        match left.is_empty() {
            true => Ok(ResetWorktree { directory, commit, capture, lost }),
            false => Err(WorktreeError::LeftChanges { directory, paths: left }),
        }
    }

    /// What has to be known before a worktree is removed or reset.
    fn worktree_facts(&self, project: &Project, which: &Path) -> Result<Facts, WorktreeError> {
        let git = self.project_git(project)?;
        let made = find_made(project, which).ok_or_else(|| refusal(project, which))?.clone();
        let lost = self.only_here(&git, &made)?;
        Ok(Facts { git, directory: PathBuf::from(&made.directory), made, lost })
    }

    /// Takes away a worktree nobody has worked in: its making failed, and clients hear why.
    pub(crate) fn discard(
        &self,
        ctx: &Context,
        project: &ProjectId,
        made: &MadeWorktree,
        why: &WorktreeError,
    ) -> Result<(), WorktreeError> {
        let git = self.project_git(&self.get_project(ctx, project)?)?;
        self.close_vaults(std::iter::once(&made.directory));
        self.remove_files(&git, Path::new(&made.directory))?;
        delete_branch(&git, made)?;
        Ok(self.note_failure(ctx, project, made, &why.to_string())?)
    }

    /// What would be gone with a worktree of a project.
    pub(crate) fn work_only_in(
        &self,
        project: &Project,
        made: &MadeWorktree,
    ) -> Result<OnlyHere, WorktreeError> {
        let git = self.project_git(project)?;
        self.only_here(&git, made)
    }

    /// What would be gone with a worktree.
    fn only_here(&self, git: &Git, made: &MadeWorktree) -> Result<OnlyHere, WorktreeError> {
        let mut work = OnlyHere::default();
        if let Some(branch) = own_branch(git, made)? {
            work.commits = git.list_unreachable_without(branch, SHOWN)?;
        }
        let directory = Path::new(&made.directory);
        // A making that was cut off may have left a folder that is no checkout yet.
        if is_there(&directory.join(".git"))? {
            let inside = self.get_repository_at(directory)?;
            work.changes = paths(&inside)?;
            for commit in inside.list_unnamed(SHOWN)? {
                if !work.commits.contains(&commit) {
                    work.commits.push(commit);
                }
            }
        }
        Ok(work)
    }

    fn capture_worktree(&self, ctx: &Context, made: &MadeWorktree) -> Result<Option<String>> {
        let directory = Path::new(&made.directory);
        if !is_there(&directory.join(".git"))? {
            return Ok(None);
        }
        let vault = self.vault(directory, ctx.now)?;
        let group = Group::new(&format!("worktree {}", made.directory));
        Ok(Some(vault.track(&group, ctx.now)?.capture.id.to_string()))
    }

    /// Takes the checkout away; `git` first, then what it left.
    fn remove_files(&self, git: &Git, directory: &Path) -> Result<(), WorktreeError> {
        let is_listed = |git: &Git| -> Result<bool, WorktreeError> {
            Ok(git.list_worktrees()?.iter().any(|row| row.path == directory))
        };
        if directory.is_dir() && is_listed(git)? {
            let removed = git.remove_worktree(directory);
            // It may have failed after it had let go: what counts is what it says now.
            if removed.is_err() && is_listed(git)? {
                return Ok(removed?);
            }
        }
        if is_there(directory)? {
            if !fs_err::symlink_metadata(directory)?.is_dir() {
                return Err(WorktreeError::NotOurs(directory.to_owned()));
            }
            fs_err::remove_dir_all(directory)?;
        }
        if is_listed(git)? {
            git.prune_worktrees()?;
        }
        Ok(())
    }
}

/// True if there is anything of that name; what cannot be looked at is not taken for nothing.
fn is_there(path: &Path) -> std::io::Result<bool> {
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
fn paths(git: &Git) -> Result<Vec<String>, WorktreeError> {
    let shown = |change: &turnstone_process::Change| change.path.to_string_lossy().into_owned();
    Ok(git.status()?.iter().take(SHOWN).map(shown).collect())
}

/// The worktree of that name or directory, if Turnstone made it.
fn find_made<'p>(project: &'p Project, which: &Path) -> Option<&'p MadeWorktree> {
    let real = fs_err::canonicalize(which).unwrap_or_else(|_| which.to_owned());
    project
        .worktrees
        .iter()
        .find(|made| Path::new(&made.directory) == real || Path::new(&made.name) == which)
}

fn refusal(project: &Project, which: &Path) -> WorktreeError {
    let real = fs_err::canonicalize(which).unwrap_or_else(|_| which.to_owned());
    match real == Path::new(&project.worktree) {
        true => WorktreeError::Primary(real),
        false => WorktreeError::NotOurs(which.to_owned()),
    }
}

/// The branch that was made with a worktree, if it is still there.
fn own_branch<'m>(git: &Git, made: &'m MadeWorktree) -> Result<Option<&'m str>, WorktreeError> {
    let Some(branch) = made.branch.as_deref() else {
        return Ok(None);
    };
    let is_there = git.find_commit(&format!("refs/heads/{branch}"))?.is_some();
    Ok(Some(branch).filter(|_| is_there))
}

/// The branch that was made with a worktree and the commit it names, unless somebody has it checked
/// out: then it is theirs. The checkout at `going` does not count.
fn deletable(
    git: &Git,
    made: &MadeWorktree,
    going: Option<&Path>,
) -> Result<Option<(String, String)>, WorktreeError> {
    let Some(branch) = own_branch(git, made)? else {
        return Ok(None);
    };
    let name = format!("refs/heads/{branch}");
    let Some(commit) = git.find_commit(&name)? else {
        return Ok(None);
    };
    let held = turnstone_process::Branch::Named(name);
    let used = git.list_worktrees()?;
    let is_held = used.iter().any(|row| row.branch == held && Some(row.path.as_path()) != going);
    Ok((!is_held).then(|| (branch.to_owned(), commit)))
}

/// Deletes the branch that was made with a worktree, unless it moves at this moment or somebody
/// has it checked out elsewhere: then it is theirs.
fn delete_branch(
    git: &Git,
    made: &MadeWorktree,
) -> Result<Option<(String, String)>, WorktreeError> {
    let Some((branch, commit)) = deletable(git, made, None)? else {
        return Ok(None);
    };
    git.delete_branch(&branch, &commit)?;
    Ok(Some((branch, commit)))
}

/// The commit of the default branch (snapshots.md 5.1); nothing is fetched.
fn default_commit(git: &Git, project: &ProjectId) -> Result<String, WorktreeError> {
    let names = [
        "refs/remotes/origin/HEAD",
        "refs/remotes/upstream/HEAD",
        "refs/heads/main",
        "refs/heads/master",
    ];
    for name in names {
        if let Some(commit) = git.find_commit(name)? {
            return Ok(commit);
        }
    }
    Err(WorktreeError::NoDefaultBranch(project.clone()))
}
