//! Making and listing worktrees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Number;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{CreatedWorktree, Project, WorktreeCreationEvent, WorktreeOutcome};
use turnstone_core::session_naming;
use turnstone_process::{Git, GitWorktreeRequest};
use turnstone_store::{Context, Store, Tx};

use super::error::WorktreeError;
use super::name::slugify;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::permissions::OperationGates;
use crate::projects::project_records::ProjectRecords;
use crate::projects::repository::Repositories;

/// How many names are tried.
const MAX_NAME_ATTEMPTS: usize = 26;
/// What the branches of worktrees begin with.
const BRANCH_PREFIX: &str = "turnstone/";

/// A worktree to be made.
#[derive(Clone, Debug, Default)]
pub struct WorktreeRequest {
    /// What it should be called; none: two words.
    pub name: Option<String>,
    /// True for one without a branch.
    pub detached: bool,
    /// The commit or branch it begins with; none: the project's present commit.
    pub from: Option<String>,
}

/// A worktree of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorktreeInfo {
    /// Its name.
    pub name: String,
    /// Its branch, as `turnstone/name`; none if it has a commit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where it is.
    pub directory: PathBuf,
    /// False if Turnstone did not create it: it is listed, and never changed.
    pub made: bool,
    /// False if its making was cut off, or its directory is gone.
    pub ready: bool,
}

impl From<&CreatedWorktree> for WorktreeInfo {
    fn from(made: &CreatedWorktree) -> Self {
        let directory = PathBuf::from(&made.directory);
        Self {
            name: made.name.clone(),
            branch: made.branch.clone(),
            made: true,
            ready: made.ready && directory.is_dir(),
            directory,
        }
    }
}

/// The git worktrees of projects.
#[derive(Clone)]
pub struct Worktrees {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) records: ProjectRecords,
    pub(crate) repositories: Repositories,
    pub(crate) gates: OperationGates,
    pub(crate) folder: PathBuf,
}

impl Worktrees {
    /// Makes a worktree of a project; all its files are there when this returns.
    ///
    /// It is recorded before anything is created, so that a crash leaves nothing unknown. Clients
    /// get `worktree.ready` or `worktree.failed`.
    ///
    /// # Errors
    ///
    /// See [`WorktreeError`].
    pub fn create(
        &self,
        ctx: &Context,
        project: &ProjectId,
        new: &WorktreeRequest,
    ) -> Result<WorktreeInfo, WorktreeError> {
        let made = self.add(ctx, project, new)?;
        Ok(self.record_ready(ctx, project, made)?)
    }

    /// Makes the checkout; it is not used before [`Self::record_ready`].
    pub(crate) fn add(
        &self,
        ctx: &Context,
        project: &ProjectId,
        new: &WorktreeRequest,
    ) -> Result<CreatedWorktree, WorktreeError> {
        let found = self.records.get(ctx, project)?;
        let (git, from) = self.find_starting_commit(&found, new)?;
        let made = self.choose_name(ctx, &git, &found, new)?;
        let note = made.clone();
        self.records.modify(ctx, project, move |it| it.worktrees.push(note.clone()))?;
        fail::fail_point!("engine::worktree_noted", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let path = Path::new(&made.directory);
        let add = GitWorktreeRequest { path, branch: made.branch.as_deref(), from: &from };
        if let Err(error) = git.worktrees().add(add) {
            self.record_failure(ctx, project, &made, &error.to_string())?;
            return Err(error.into());
        }
        Ok(made)
    }

    /// Checks that a worktree of `project` can be created: there is a repository, and the commit to begin
    /// with. Nothing is stored, so `project` may be a derived one.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotGit`], [`WorktreeError::NoCommit`], or git could not tell.
    pub fn check_source(
        &self,
        project: &Project,
        new: &WorktreeRequest,
    ) -> Result<(), WorktreeError> {
        self.find_starting_commit(project, new).map(drop)
    }

    fn find_starting_commit(
        &self,
        project: &Project,
        new: &WorktreeRequest,
    ) -> Result<(Git, String), WorktreeError> {
        let git = self.open_project_repository(project)?;
        let from = git.history().find_commit(new.from.as_deref().unwrap_or("HEAD"))?;
        let from = from.ok_or_else(|| WorktreeError::NoCommit(project.id.clone()))?;
        Ok((git, from))
    }

    /// Records that a worktree has all its files: clients get an event, sessions may begin there.
    pub(crate) fn record_ready(
        &self,
        ctx: &Context,
        project: &ProjectId,
        made: CreatedWorktree,
    ) -> Result<WorktreeInfo> {
        let ready = CreatedWorktree { ready: true, ..made };
        let info = WorktreeInfo::from(&ready);
        let (name, branch) = (ready.name.clone(), ready.branch.clone());
        let outcome = WorktreeOutcome::Ready { name, branch };
        let event = WorktreeCreationEvent { directory: ready.directory.clone(), outcome };
        self.record_outcome(ctx, project, event, move |project| {
            project.worktrees.retain(|one| one.directory != ready.directory);
            if !project.sandboxes.contains(&ready.directory) {
                project.sandboxes.push(ready.directory.clone());
            }
            project.worktrees.push(ready.clone());
        })?;
        Ok(info)
    }

    /// Says that a worktree could not be made; what is left of it stays known.
    pub(crate) fn record_failure(
        &self,
        ctx: &Context,
        project: &ProjectId,
        made: &CreatedWorktree,
        why: &str,
    ) -> Result<()> {
        let directory = made.directory.clone();
        let outcome = WorktreeOutcome::Failed { message: why.to_owned() };
        let event = WorktreeCreationEvent { directory: directory.clone(), outcome };
        // Nothing came of it: nothing is left to know. What cannot be looked at may be there.
        let is_gone = !Path::new(&directory).try_exists().unwrap_or(true);
        self.record_outcome(ctx, project, event, move |project| {
            project.worktrees.retain(|one| !is_gone || one.directory != directory);
        })
    }

    /// Changes a project and tells clients of its worktree, all or nothing.
    fn record_outcome(
        &self,
        ctx: &Context,
        project: &ProjectId,
        event: WorktreeCreationEvent,
        change: impl Fn(&mut Project) + Send + 'static,
    ) -> Result<()> {
        let (id, now) = (project.clone(), Number::from(ctx.now.0));
        let note = move |tx: &Tx<'_>| {
            tx.projects().update(&id, |project| {
                change(project);
                project.time.updated = now.clone();
            })?;
            tx.projects().announce_worktree(&id, &event)
        };
        Ok(self.store.write(ctx, note).wait()?)
    }

    /// A name that neither a folder nor a branch has.
    fn choose_name(
        &self,
        ctx: &Context,
        git: &Git,
        project: &Project,
        new: &WorktreeRequest,
    ) -> Result<CreatedWorktree, WorktreeError> {
        let words = || {
            self.id_generator
                .new_session_id(ctx.now)
                .map(|(_, random)| session_naming::random_slug(random))
        };
        let wanted = slugify(new.name.as_deref().unwrap_or_default());
        let wanted = if wanted.is_empty() { words()? } else { wanted };
        let folder = self.worktree_folder(&project.id)?;
        for attempt in 0..MAX_NAME_ATTEMPTS {
            let name = match attempt {
                0 => wanted.clone(),
                _ => format!("{wanted}-{}", words()?),
            };
            let directory = folder.join(&name);
            let branch = (!new.detached).then(|| format!("{BRANCH_PREFIX}{name}"));
            let taken = match &branch {
                Some(branch) => {
                    git.history().find_commit(&format!("refs/heads/{branch}"))?.is_some()
                }
                None => false,
            };
            let directory = directory.to_string_lossy().into_owned();
            let known = project.worktrees.iter().any(|made| made.directory == directory);
            if !taken && !known && fs_err::symlink_metadata(&directory).is_err() {
                return Ok(CreatedWorktree { name, directory, branch, ready: false });
            }
        }
        Err(WorktreeError::NoName(wanted))
    }

    /// The folder of a project's worktrees, made if need be.
    fn worktree_folder(&self, project: &ProjectId) -> std::io::Result<PathBuf> {
        // A name of our own, whatever an import called the project (R46).
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let name = project.as_str();
        let name = match name.chars().all(plain) {
            true => name.to_owned(),
            false => name.bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        let folder = self.folder.join(name);
        fs_err::create_dir_all(&folder)?;
        fs_err::canonicalize(folder)
    }

    /// The worktrees of a project, stored or derived: those Turnstone made, then those others made.
    ///
    /// # Errors
    ///
    /// See [`WorktreeError`].
    pub fn list(&self, project: &Project) -> Result<Vec<WorktreeInfo>, WorktreeError> {
        let mut found: Vec<WorktreeInfo> = project.worktrees.iter().map(Into::into).collect();
        let git = match self.open_project_repository(project) {
            Err(WorktreeError::NotGit(_)) => return Ok(found),
            git => git?,
        };
        // The first one is the main checkout.
        for row in git.worktrees().list()?.into_iter().skip(1) {
            let primary = Path::new(&project.worktree);
            if row.path == primary || found.iter().any(|one| one.directory == row.path) {
                continue;
            }
            let branch = match &row.branch {
                turnstone_process::WorktreeCheckout::Named(name) => {
                    Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned())
                }
                turnstone_process::WorktreeCheckout::Detached
                | turnstone_process::WorktreeCheckout::Bare => None,
            };
            let name = display_name(&row.path, primary);
            let ready = row.path.is_dir();
            found.push(WorktreeInfo { name, branch, directory: row.path, made: false, ready });
        }
        Ok(found)
    }

    pub(crate) fn open_project_repository(&self, project: &Project) -> Result<Git, WorktreeError> {
        if project.vcs.as_deref() != Some("git") {
            return Err(WorktreeError::NotGit(project.id.clone()));
        }
        let places = std::iter::once(&project.worktree).chain(&project.sandboxes);
        let place = places.map(Path::new).find(|place| place.is_dir());
        let gone = || EngineError::ProjectGone {
            project: project.id.clone(),
            path: PathBuf::from(&project.worktree),
        };
        let found = self.repositories.find(place.ok_or_else(gone)?)?;
        found.ok_or_else(|| WorktreeError::NotGit(project.id.clone()))
    }
}

/// The last name of its path; that of the folder above if it is called like the project itself.
fn display_name(path: &Path, primary: &Path) -> String {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    match last(path) {
        name if name == last(primary) => path.parent().and_then(last).or(name),
        name => name,
    }
    .unwrap_or_default()
}
